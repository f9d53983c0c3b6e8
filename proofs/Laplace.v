(* Discrete Laplace noise on integer vectors: privacy/mechanisms/mechanisms.py, privacy/accounting/conversions.py. *)
From Coq Require Import Reals ZArith List Lia Lra Arith.
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

(* ------------------------------------------------------------------ noise that sites divide among themselves
   `share`: each of h sites adds X - Y to every entry, X and Y of the law `polya rate (1 / h)`. The sum of h
   such shares is discrete Laplace noise, and whatever else is added makes a release no dearer. *)
(* The law of the sum of two independent natural numbers, and of h of one law. *)
Fixpoint sum_law (f g : nat -> R) (n : nat) : R :=
  match n with
  | O => f O * g O
  | S m => f O * g n + sum_law (fun i => f (S i)) g m
  end.
Fixpoint sum_of_draws (f : nat -> R) (h : nat) : nat -> R :=
  match h with
  | O => fun n => match n with O => 1 | S _ => 0 end
  | S j => sum_law f (sum_of_draws f j)
  end.

(* (r)_k / k!, and P(k) = (1 - a)^r (r)_k / k! a^k with a = exp(-rate): the law of a share for r = 1 / h. *)
Fixpoint rising (r : R) (k : nat) : R :=
  match k with O => 1 | S j => rising r j * (r + INR j) / INR (S j) end.
Definition polya (rate r : R) (k : nat) : R :=
  Rpower (1 - exp (- rate)) r * rising r k * exp (- rate * INR k).

(* p is the probability that the difference of two independent numbers of this law is z. *)
Definition difference_law (f : nat -> R) (z : Z) (p : R) : Prop :=
  infinite_sum (fun j => f (j + Z.to_nat z)%nat * f (j + Z.to_nat (- z))%nat) p.

Lemma sum_law_ext : forall n f f' g g', (forall i, f i = f' i) -> (forall i, g i = g' i) ->
  sum_law f g n = sum_law f' g' n.
Proof.
  induction n as [|n IH]; intros f f' g g' F G; simpl; rewrite F, G; [reflexivity|].
  f_equal. apply IH; intro; auto.
Qed.

Lemma sum_law_plus : forall n f f' g,
  sum_law (fun i => f i + f' i) g n = sum_law f g n + sum_law f' g n.
Proof.
  induction n as [|n IH]; intros f f' g; simpl; [ring|].
  rewrite (IH (fun i => f (S i)) (fun i => f' (S i)) g). ring.
Qed.

Lemma sum_law_scaled : forall n c d f g,
  sum_law (fun i => c * f i) (fun i => d * g i) n = c * d * sum_law f g n.
Proof.
  induction n as [|n IH]; intros c d f g; simpl; [ring|].
  rewrite (IH c d (fun i => f (S i)) g). ring.
Qed.

Lemma sum_law_last : forall n f g,
  sum_law f g (S n) = sum_law f (fun i => g (S i)) n + f (S n) * g O.
Proof.
  induction n as [|n IH]; intros f g; [simpl; ring|].
  change (f O * g (S (S n)) + sum_law (fun i => f (S i)) g (S n)
          = f O * g (S (S n)) + sum_law (fun i => f (S i)) (fun i => g (S i)) n + f (S (S n)) * g O).
  rewrite IH. ring.
Qed.

Lemma sum_law_weighed : forall n f g,
  sum_law (fun i => INR i * f i) g n + sum_law f (fun i => INR i * g i) n = INR n * sum_law f g n.
Proof.
  induction n as [|n IH]; intros f g; [simpl; ring|].
  specialize (IH (fun i => f (S i)) g).
  assert (E : sum_law (fun i => INR (S i) * f (S i)) g n =
              sum_law (fun i => INR i * f (S i)) g n + sum_law (fun i => f (S i)) g n).
  { rewrite <- sum_law_plus. apply sum_law_ext; intro i; [rewrite S_INR; ring|reflexivity]. }
  cbn [sum_law]. rewrite E, (S_INR n). simpl (INR 0).
  lra.
Qed.

Lemma rising_next : forall r k, INR (S k) * rising r (S k) = (r + INR k) * rising r k.
Proof. intros r k. cbn [rising]. pose proof (lt_0_INR (S k) (Nat.lt_0_succ k)). field. lra. Qed.

(* Vandermonde's identity for rising factorials. *)
Theorem rising_adds : forall r s n, sum_law (rising r) (rising s) n = rising (r + s) n.
Proof.
  intros r s. induction n as [|n IH]; [simpl; ring|].
  pose proof (lt_0_INR (S n) (Nat.lt_0_succ n)) as P.
  apply (Rmult_eq_reg_l (INR (S n))); [|lra]. rewrite rising_next, <- IH, <- sum_law_weighed.
  assert (A : sum_law (fun i => INR i * rising r i) (rising s) (S n) =
              sum_law (fun i => (r + INR i) * rising r i) (rising s) n).
  { cbn [sum_law]. simpl (INR 0). rewrite !Rmult_0_l, Rplus_0_l.
    apply sum_law_ext; intro i; [apply rising_next|reflexivity]. }
  assert (B : sum_law (rising r) (fun i => INR i * rising s i) (S n) =
              sum_law (rising r) (fun i => (s + INR i) * rising s i) n).
  { rewrite sum_law_last. simpl (INR 0). rewrite Rmult_0_l, Rmult_0_r, Rplus_0_r.
    apply sum_law_ext; intro i; [reflexivity|apply rising_next]. }
  rewrite A, B. clear A B.
  assert (A : sum_law (fun i => (r + INR i) * rising r i) (rising s) n =
              r * sum_law (rising r) (rising s) n + sum_law (fun i => INR i * rising r i) (rising s) n).
  { rewrite (sum_law_ext n _ (fun i => r * rising r i + INR i * rising r i) _ (rising s))
      by (intro; ring). rewrite sum_law_plus. f_equal.
    rewrite (sum_law_ext n _ (fun i => r * rising r i) _ (fun i => 1 * rising s i)) by (intro; ring).
    rewrite sum_law_scaled. ring. }
  assert (B : sum_law (rising r) (fun i => (s + INR i) * rising s i) n =
              s * sum_law (rising r) (rising s) n + sum_law (rising r) (fun i => INR i * rising s i) n).
  { clear. generalize (rising r) as f. generalize (rising s) as g. intros g f.
    revert f. induction n as [|n IH]; intro f; [simpl; ring|]. cbn [sum_law]. rewrite IH. ring. }
  rewrite A, B. pose proof (sum_law_weighed n (rising r) (rising s)). lra.
Qed.

Theorem polya_adds : forall rate r s n, 0 < rate ->
  sum_law (polya rate r) (polya rate s) n = polya rate (r + s) n.
Proof.
  intros rate r s n pos. unfold polya.
  assert (E : forall n f g, sum_law (fun i => f i * exp (- rate * INR i)) (fun i => g i * exp (- rate * INR i)) n
              = sum_law f g n * exp (- rate * INR n)).
  { clear. induction n as [|n IH]; intros f g.
    - simpl. rewrite Rmult_0_r, exp_0. ring.
    - cbn [sum_law]. simpl (INR 0). rewrite Rmult_0_r, exp_0.
      assert (S1 : forall i, exp (- rate * INR (S i)) = exp (- rate) * exp (- rate * INR i)).
      { intro i. rewrite <- exp_plus, S_INR. f_equal. ring. }
      rewrite (sum_law_ext n _ (fun i => (exp (- rate) * f (S i)) * exp (- rate * INR i)) _
                 (fun i => g i * exp (- rate * INR i)))
        by (intro i; first [reflexivity|rewrite S1; ring]).
      rewrite IH, S1.
      rewrite (sum_law_ext n _ (fun i => exp (- rate) * f (S i)) _ (fun i => 1 * g i)) by (intro; ring).
      rewrite sum_law_scaled. ring. }
  rewrite E, sum_law_scaled, rising_adds, Rpower_plus. reflexivity.
Qed.

(* h draws of polya rate r make one of polya rate (h r); none is nothing. *)
Theorem shares_add : forall rate r h n, 0 < rate ->
  sum_of_draws (polya rate r) (S h) n = polya rate (INR (S h) * r) n.
Proof.
  intros rate r h. induction h as [|h IH]; intros n pos.
  - simpl (INR 1). rewrite Rmult_1_l. generalize (polya rate r) as f. clear.
    induction n as [|n IH]; intro f; [simpl; ring|].
    change (sum_of_draws f 1 (S n))
      with (f O * 0 + sum_of_draws (fun i => f (S i)) 1 n). rewrite IH. ring.
  - change (sum_of_draws (polya rate r) (S (S h)) n)
      with (sum_law (polya rate r) (sum_of_draws (polya rate r) (S h)) n).
    rewrite (sum_law_ext n _ (polya rate r) _ (polya rate (INR (S h) * r))) by (intro; auto).
    rewrite polya_adds by assumption. f_equal. rewrite (S_INR (S h)). ring.
Qed.

(* All h shares: one geometric number. *)
Theorem whole_is_geometric : forall rate h n, 0 < rate -> (0 < h)%nat ->
  sum_of_draws (polya rate (1 / INR h)) h n = (1 - exp (- rate)) * exp (- rate * INR n).
Proof.
  intros rate [|h] n pos some; [lia|]. rewrite shares_add by assumption.
  pose proof (lt_0_INR (S h) some). replace (INR (S h) * (1 / INR (S h))) with 1 by (field; lra).
  unfold polya. rewrite Rpower_1.
  - replace (rising 1 n) with 1; [ring|]. clear. induction n as [|n IH]; [reflexivity|].
    cbn [rising]. rewrite <- IH, S_INR. pose proof (pos_INR n). field. lra.
  - assert (exp (- rate) < 1) by (rewrite <- exp_0; apply exp_increasing; lra). lra.
Qed.

Lemma geometric_series : forall x, 0 <= x < 1 -> infinite_sum (fun j => x ^ j) (/ (1 - x)).
Proof.
  intros x X. pose proof (GP_infinite x) as G. unfold Pser in G.
  assert (A : Rabs x < 1) by (rewrite Rabs_pos_eq; lra). specialize (G A). intros e E.
  destruct (G e E) as [N H]. exists N. intros n K. specialize (H n K).
  erewrite sum_eq; [exact H|]. intros i _. simpl. ring.
Qed.

Lemma infinite_sum_scaled : forall c f l, infinite_sum f l -> infinite_sum (fun j => c * f j) (c * l).
Proof.
  intros c f l H. destruct (Req_dec c 0) as [Z|Z].
  - subst c. intros e E. exists O. intros n _. rewrite Rmult_0_l.
    replace (sum_f_R0 _ n) with 0; [unfold R_dist; rewrite Rminus_diag_eq, Rabs_R0 by reflexivity; lra|].
    symmetry. clear. induction n; simpl; [ring|]. rewrite IHn. ring.
  - intros e E. assert (A : 0 < Rabs c) by (apply Rabs_pos_lt, Z).
    destruct (H (e / Rabs c)) as [N K]; [apply Rdiv_lt_0_compat; assumption|]. exists N. intros n M.
    specialize (K n M). unfold R_dist in *.
    replace (sum_f_R0 (fun j => c * f j) n - c * l) with (c * (sum_f_R0 f n - l)).
    + rewrite Rabs_mult. apply (Rmult_lt_compat_l (Rabs c)) in K; [|exact A].
      replace (Rabs c * (e / Rabs c)) with e in K by (field; lra). exact K.
    + rewrite Rmult_minus_distr_l. f_equal. clear. induction n; simpl; [ring|]. rewrite <- IHn. ring.
Qed.

(* The claim: h differences of shares add up to discrete Laplace noise. *)
Theorem shares_sum_to_laplace : forall rate h z, 0 < rate -> (0 < h)%nat ->
  difference_law (sum_of_draws (polya rate (1 / INR h)) h) z (laplace rate z).
Proof.
  intros rate h z pos some. unfold difference_law.
  set (a := exp (- rate)). assert (A : 0 < a < 1).
  { split; [apply exp_pos|]. unfold a. rewrite <- exp_0. apply exp_increasing. lra. }
  assert (T : forall j, sum_of_draws (polya rate (1 / INR h)) h (j + Z.to_nat z)
                        * sum_of_draws (polya rate (1 / INR h)) h (j + Z.to_nat (- z))
              = (1 - a) * (1 - a) * exp (- rate * IZR (Z.abs z)) * (a * a) ^ j).
  { intro j. rewrite !whole_is_geometric by assumption. fold a.
    replace ((a * a) ^ j) with (exp (- rate * INR j) * exp (- rate * INR j)).
    - replace (Z.abs z) with (Z.of_nat (Z.to_nat z + Z.to_nat (- z)))%Z by lia.
      rewrite <- INR_IZR_INZ, !plus_INR, !Rmult_plus_distr_l, !exp_plus. ring.
    - rewrite Rpow_mult_distr. unfold a. clear. induction j as [|j IH]; [simpl; rewrite Rmult_0_r, exp_0; ring|].
      rewrite S_INR, Rmult_plus_distr_l, exp_plus, Rmult_1_r. simpl pow.
      replace (exp (- rate) * exp (- rate) ^ j * (exp (- rate) * exp (- rate) ^ j))
        with (exp (- rate) * exp (- rate) * (exp (- rate) ^ j * exp (- rate) ^ j)) by ring.
      rewrite <- IH. ring. }
  assert (G : infinite_sum (fun j => (1 - a) * (1 - a) * exp (- rate * IZR (Z.abs z)) * (a * a) ^ j)
                (laplace rate z)).
  { replace (laplace rate z) with ((1 - a) * (1 - a) * exp (- rate * IZR (Z.abs z)) * / (1 - a * a)).
    - apply infinite_sum_scaled, geometric_series. nra.
    - unfold laplace. fold a. field. nra. }
  intros e E. destruct (G e E) as [N H]. exists N. intros n K. specialize (H n K).
  erewrite sum_eq; [exact H|]. intros i _. apply T.
Qed.

(* Whatever others add, independently of these shares: the release costs no more. `extra n` is what
   they add, with probability `weight n`: further honest shares, or shares that colluders know. *)
Theorem more_noise_costs_no_more : forall cost bound x x' y (weight : nat -> R) (extra : nat -> vector) p p',
  0 < cost -> (1 <= bound)%Z -> length x = length x' -> (L1 (vsub x x') <= bound)%Z ->
  (forall n, 0 <= weight n) -> (forall n, length (extra n) = length x) ->
  infinite_sum (fun n => weight n * release (cost / IZR bound) (vadd x (extra n)) y) p ->
  infinite_sum (fun n => weight n * release (cost / IZR bound) (vadd x' (extra n)) y) p' ->
  p <= exp cost * p'.
Proof.
  intros cost bound x x' y weight extra p p' C B E within W L P P'.
  assert (V : forall u v w : vector, length u = length v -> length w = length u ->
              vsub (vadd u w) (vadd v w) = vsub u v).
  { clear. induction u as [|a u IH]; intros [|b v] [|c w] E F; try discriminate; [reflexivity|].
    simpl. f_equal; [lia|]. apply IH; simpl in *; lia. }
  apply (infinite_sum_scaled (exp cost)) in P'.
  eapply Rle_cv_lim; [|exact P|exact P'].
  intro n. apply sum_Rle. intros i _. rewrite <- Rmult_assoc, (Rmult_comm (exp cost)), Rmult_assoc.
  apply Rmult_le_compat_l; [apply W|]. apply release_costs; try assumption.
  - rewrite !vadd_length; [exact E| |]; rewrite L; congruence.
  - rewrite V; [exact within|exact E|apply L].
Qed.
