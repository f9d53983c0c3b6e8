(* Discrete Laplace noise on integer vectors: privacy/mechanisms/mechanisms.py, privacy/accounting/conversions.py. *)
From Coq Require Import Reals ZArith List Lia Lra.
From Hedgerow Require Import Sums.
Import ListNotations.
Open Scope R_scope.

(* P(k) proportional to exp(-rate |k|) *)
Definition laplace (rate : R) (k : Z) : R :=
  (1 - exp (- rate)) / (1 + exp (- rate)) * exp (- rate * IZR (Z.abs k)).

Lemma laplace_pos : forall rate k, 0 < rate -> 0 < laplace rate k.
Proof.
  intros rate k pos. unfold laplace. pose proof (exp_pos (- rate)).
  pose proof (exp_pos (- rate * IZR (Z.abs k))).
  assert (exp (- rate) < 1) by (rewrite <- exp_0; apply exp_increasing; lra).
  apply Rmult_lt_0_compat; [|assumption]. apply Rdiv_lt_0_compat; lra.
Qed.

(* A change of the centre by d changes a probability by a factor of at most exp(rate |d|). *)
Theorem laplace_ratio : forall rate y x x', 0 < rate ->
  laplace rate (y - x) <= exp (rate * IZR (Z.abs (x - x'))) * laplace rate (y - x').
Proof.
  intros rate y x x' pos. unfold laplace.
  set (c := (1 - exp (- rate)) / (1 + exp (- rate))).
  assert (C : 0 < c).
  { unfold c. pose proof (exp_pos (- rate)).
    assert (exp (- rate) < 1) by (rewrite <- exp_0; apply exp_increasing; lra).
    apply Rdiv_lt_0_compat; lra. }
  rewrite (Rmult_comm (exp _)), Rmult_assoc, <- exp_plus.
  apply Rmult_le_compat_l; [lra|].
  assert (T : IZR (Z.abs (y - x')) <= IZR (Z.abs (x - x')) + IZR (Z.abs (y - x))).
  { rewrite <- plus_IZR. apply IZR_le. lia. }
  assert (E : - rate * IZR (Z.abs (y - x)) <= - rate * IZR (Z.abs (y - x')) + rate * IZR (Z.abs (x - x'))) by nra.
  destruct E as [E|E]; [left; apply exp_increasing; exact E|right; f_equal; exact E].
Qed.

(* The factor is reached: the cost is not an overestimate. *)
Theorem laplace_ratio_reached : forall rate x d, (0 <= d)%Z ->
  laplace rate (x + d - (x + d)) = exp (rate * IZR (Z.abs d)) * laplace rate (x + d - x).
Proof.
  intros rate x d pos. unfold laplace.
  replace (x + d - (x + d))%Z with 0%Z by lia. replace (x + d - x)%Z with d by lia.
  rewrite (Rmult_comm (exp (rate * _))), Rmult_assoc, <- exp_plus. f_equal. f_equal.
  simpl (Z.abs 0). lra.
Qed.

(* It is a probability: what is outside [-n, n] is 2 a^(n+1) / (1 + a), which tends to 0. *)
Fixpoint mass_within (rate : R) (n : nat) : R :=
  match n with
  | O => laplace rate 0
  | S m => mass_within rate m + laplace rate (Z.of_nat n) + laplace rate (- Z.of_nat n)
  end.

Theorem laplace_mass : forall rate n, 0 < rate ->
  mass_within rate n = 1 - 2 * exp (- rate * INR (S n)) / (1 + exp (- rate)).
Proof.
  intros rate n pos. pose proof (exp_pos (- rate)) as A.
  induction n as [|n IH].
  - simpl. unfold laplace. simpl (Z.abs 0).
    replace (- rate * 1) with (- rate) by ring. replace (- rate * IZR 0) with 0 by (simpl; ring).
    rewrite exp_0. field. lra.
  - change (mass_within rate (S n))
      with (mass_within rate n + laplace rate (Z.of_nat (S n)) + laplace rate (- Z.of_nat (S n))).
    rewrite IH. unfold laplace. rewrite Z.abs_opp, Z.abs_eq by lia.
    rewrite <- INR_IZR_INZ, (S_INR (S n)).
    replace (- rate * (INR (S n) + 1)) with (- rate * INR (S n) + - rate) by ring.
    rewrite exp_plus. field. lra.
Qed.

(* ---------------------------------------------------------------------------- whole vectors *)
(* The probability that x and independent noise on each entry give y. *)
Fixpoint release (rate : R) (x y : vector) : R :=
  match x, y with
  | [], [] => 1
  | a :: x', b :: y' => laplace rate (b - a) * release rate x' y'
  | _, _ => 0
  end.

Lemma release_nonneg : forall rate x y, 0 < rate -> 0 <= release rate x y.
Proof.
  intros rate x. induction x as [|a x IH]; intros [|b y] pos; simpl; try lra.
  apply Rmult_le_pos; [left; apply laplace_pos; exact pos|apply IH; exact pos].
Qed.

Theorem release_ratio : forall rate x x' y, 0 < rate -> length x = length x' ->
  release rate x y <= exp (rate * IZR (L1 (vsub x x'))) * release rate x' y.
Proof.
  intros rate x. induction x as [|a x IH]; intros [|a' x'] y pos E; try discriminate E.
  - replace (L1 (vsub [] [])) with 0%Z by reflexivity.
    replace (rate * IZR 0) with 0 by (simpl; ring). rewrite exp_0. lra.
  - destruct y as [|b y]; [simpl; lra|].
    change (release rate (a :: x) (b :: y)) with (laplace rate (b - a) * release rate x y).
    change (release rate (a' :: x') (b :: y)) with (laplace rate (b - a') * release rate x' y).
    replace (L1 (vsub (a :: x) (a' :: x'))) with (Z.abs (a - a') + L1 (vsub x x'))%Z by reflexivity.
    rewrite plus_IZR, Rmult_plus_distr_l, exp_plus.
    injection E as E. specialize (IH x' y pos E).
    pose proof (laplace_ratio rate b a a' pos). pose proof (laplace_pos rate (b - a) pos).
    pose proof (release_nonneg rate x y pos).
    replace (exp (rate * IZR (Z.abs (a - a'))) * exp (rate * IZR (L1 (vsub x x'))) *
             (laplace rate (b - a') * release rate x' y))
      with ((exp (rate * IZR (Z.abs (a - a'))) * laplace rate (b - a')) *
            (exp (rate * IZR (L1 (vsub x x'))) * release rate x' y)) by ring.
    apply Rmult_le_compat; lra.
Qed.

(* `noise_law`: rate = cost / L1. Then a change within the bound costs at most `cost`. *)
Theorem release_costs : forall cost bound x x' y,
  0 < cost -> (1 <= bound)%Z -> length x = length x' -> (L1 (vsub x x') <= bound)%Z ->
  release (cost / IZR bound) x y <= exp cost * release (cost / IZR bound) x' y.
Proof.
  intros cost bound x x' y pos one E within.
  assert (B : 0 < IZR bound) by (apply IZR_lt; lia).
  assert (R : 0 < cost / IZR bound) by (apply Rdiv_lt_0_compat; assumption).
  eapply Rle_trans; [apply release_ratio; eassumption|].
  apply Rmult_le_compat_r; [apply release_nonneg; exact R|].
  assert (D : cost / IZR bound * IZR (L1 (vsub x x')) <= cost).
  { replace cost with (cost / IZR bound * IZR bound) at 2 by (field; lra).
    apply Rmult_le_compat_l; [lra|]. apply IZR_le. exact within. }
  destruct D as [D|D]; [left; apply exp_increasing; exact D|right; f_equal; exact D].
Qed.

(* ------------------------------------------------------------------------------- distinct values *)
Definition sum_of {A : Type} (f : A -> R) (xs : list A) : R := fold_right (fun x s => f x + s) 0 xs.
Lemma sum_of_cons : forall (A : Type) (f : A -> R) x xs, sum_of f (x :: xs) = f x + sum_of f xs.
Proof. reflexivity. Qed.
Lemma sum_of_nonneg : forall (A : Type) (f : A -> R) xs, (forall x, 0 <= f x) -> 0 <= sum_of f xs.
Proof. intros A f xs H. induction xs as [|x xs IH]; [simpl; lra|]. rewrite sum_of_cons. specialize (H x). lra. Qed.
Lemma sum_of_app : forall (A : Type) (f : A -> R) xs ys, sum_of f (xs ++ ys) = sum_of f xs + sum_of f ys.
Proof. intros A f xs ys. induction xs as [|x xs IH]; simpl; [lra|]. rewrite IH. lra. Qed.

(* Distinct elements, each in zs unless it weighs nothing, weigh at most what zs does. *)
Lemma sum_of_some : forall (A : Type) (f : A -> R) ys zs, (forall y, 0 <= f y) -> NoDup ys ->
  (forall y, In y ys -> f y = 0 \/ In y zs) -> sum_of f ys <= sum_of f zs.
Proof.
  intros A f ys. induction ys as [|y ys IH]; intros zs P N I; [simpl; apply sum_of_nonneg, P|].
  inversion N as [|? ? out N']; subst. rewrite sum_of_cons. destruct (I y (or_introl eq_refl)) as [Z|Y].
  - rewrite Z. specialize (IH zs P N' (fun u U => I u (or_intror U))). lra.
  - apply in_split in Y. destruct Y as [l1 [l2 ->]].
    assert (IH' : sum_of f ys <= sum_of f (l1 ++ l2)).
    { apply IH; [exact P|exact N'|]. intros u U. destruct (I u (or_intror U)) as [Z|V]; [left; exact Z|].
      apply in_app_iff in V. destruct V as [V|[V|V]].
      - right. apply in_app_iff. left. exact V.
      - subst u. contradiction.
      - right. apply in_app_iff. right. exact V. }
    rewrite !sum_of_app, sum_of_cons in *. lra.
Qed.

Fixpoint interval (n : nat) : list Z :=
  match n with O => [0%Z] | S n' => Z.of_nat n :: (- Z.of_nat n)%Z :: interval n' end.

Lemma in_interval : forall n k, (Z.abs k <= Z.of_nat n)%Z -> In k (interval n).
Proof.
  induction n as [|n IH]; intros k K; [left; simpl in K; lia|].
  destruct (Z.eq_dec k (Z.of_nat (S n))) as [E|E]; [left; congruence|].
  destruct (Z.eq_dec k (- Z.of_nat (S n))) as [F|F]; [right; left; congruence|].
  right; right. apply IH. lia.
Qed.

Lemma laplace_of_distinct : forall rate ks, 0 < rate -> NoDup ks -> sum_of (laplace rate) ks <= 1.
Proof.
  intros rate ks R N.
  assert (B : exists n, forall k, In k ks -> (Z.abs k <= Z.of_nat n)%Z).
  { clear N. induction ks as [|k ks [n H]]; [exists 0%nat; intros k []|].
    exists (Nat.max n (Z.abs_nat k)). intros j [<-|J]; [|specialize (H j J)]; lia. }
  destruct B as [n H].
  eapply Rle_trans; [apply (sum_of_some Z (laplace rate) ks (interval n))|].
  - intro k. left. apply laplace_pos, R.
  - exact N.
  - intros k K. right. apply in_interval, H, K.
  - assert (E : sum_of (laplace rate) (interval n) = mass_within rate n).
    { clear. induction n as [|n IH]; [simpl; ring|]. cbn [interval mass_within]. rewrite !sum_of_cons, IH. ring. }
    rewrite E, laplace_mass by exact R.
    pose proof (exp_pos (- rate * INR (S n))). pose proof (exp_pos (- rate)).
    assert (0 < 2 * exp (- rate * INR (S n)) / (1 + exp (- rate))) by (apply Rdiv_lt_0_compat; lra). lra.
Qed.
