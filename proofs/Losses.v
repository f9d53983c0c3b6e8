(* Norms of what one record adds under each loss: models/losses.py, docs/proofs/losses.md.
   Privacy does not rest on these (the clamp of Sensitivity.v does that); they say that
   no honest record is ever clamped. *)
From Coq Require Import Reals ZArith List Lia Lra Psatz.
From Hedgerow Require Import Sums Sensitivity.
Import ListNotations.
Open Scope R_scope.

(* ------------------------------------------------------------------------ binary log-loss *)
Definition hessian_scale := 333 / 100.                              (* BINARY_HESSIAN_SCALE *)

(* y = 1; the other class is p -> 1 - p *)
Theorem log_loss_l2 : forall p, 0 <= p <= 1 ->
  (1 - p) * (1 - p) + (hessian_scale * (p * (1 - p))) * (hessian_scale * (p * (1 - p))) <= 1.
Proof.
  intros p P. unfold hessian_scale.
  assert (A : 0 <= (p - (382 / 1000)) * (p - (382 / 1000)) * ((137 / 10) - (110889 / 10000) * p)) by (apply Rmult_le_pos; [apply Rle_0_sqr|lra]).
  assert (B : 0 <= 2 - p - (110889 / 10000) * p * ((1 - p) * (1 - p))) by nra.
  nra.
Qed.

Theorem log_loss_l1 : forall p, 0 <= p <= 1 -> (1 - p) + hessian_scale * (p * (1 - p)) <= 187489 / 133200.
Proof.
  intros p P. unfold hessian_scale. pose proof (Rle_0_sqr (p - 233 / 666)) as S. unfold Rsqr in S. nra.
Qed.

Theorem log_loss_linf : forall p, 0 <= p <= 1 -> 1 - p <= 1 /\ hessian_scale * (p * (1 - p)) <= 1.
Proof.
  intros p P. unfold hessian_scale. pose proof (Rle_0_sqr (p - 1 / 2)) as S. unfold Rsqr in S. split; nra.
Qed.

Theorem hessian_alone : forall p, 0 <= p <= 1 -> 0 <= p * (1 - p) <= 1 / 4.
Proof. intros p P. pose proof (Rle_0_sqr (p - 1 / 2)) as S. unfold Rsqr in S. split; nra. Qed.

Theorem plain_log_loss : forall p, 0 <= p <= 1 ->
  (1 - p) + p * (1 - p) <= 1 /\ (1 - p) * (1 - p) + (p * (1 - p)) * (p * (1 - p)) <= 1.
Proof.
  intros p P. pose proof (hessian_alone p P). split; [nra|].
  replace ((1 - p) * (1 - p) + (p * (1 - p)) * (p * (1 - p))) with ((1 - p) * (1 - p) * (1 + p * p)) by ring.
  assert ((1 - p) * (1 + p * p) <= 1) by nra. nra.
Qed.

(* A larger scale would not do: at p = (382 / 1000) the norm of (g, 3.34 h) exceeds 1. *)
Theorem log_loss_sharp : 1 < (1 - (382 / 1000)) * (1 - (382 / 1000)) + ((334 / 100) * ((382 / 1000) * (1 - (382 / 1000)))) * ((334 / 100) * ((382 / 1000) * (1 - (382 / 1000)))).
Proof. lra. Qed.

(* -------------------------------------------------------- time to an event: docs/proofs/losses.md *)
(* a, b: chances of an event by the end and by the start of its interval. A censored record with chance a adds
   what an event with the chances 1 - a and 0 adds, but for the sign of g. *)
Definition odds_hessian (a b : R) : R := a * (1 - a) + b * (1 - b).

Lemma odds_hessian_below : forall a b, 0 <= a <= 1 -> 0 <= b <= 1 ->
  0 <= odds_hessian a b /\ 2 * odds_hessian a b <= (a + b) * (2 - (a + b)).
Proof.
  intros a b A B. unfold odds_hessian. pose proof (Rle_0_sqr (a - b)) as S. unfold Rsqr in S. split; nra.
Qed.

Theorem odds_loss_l2 : forall a b, 0 <= a <= 1 -> 0 <= b <= 1 ->
  (a + b - 1) * (a + b - 1) + (2 * odds_hessian a b) * (2 * odds_hessian a b) <= 1.
Proof.
  intros a b A B. destruct (odds_hessian_below a b A B) as [P Q].
  set (h := 2 * odds_hessian a b) in *. set (q := (a + b) * (2 - (a + b))) in *.
  assert (G : (a + b - 1) * (a + b - 1) = 1 - q) by (unfold q; ring).
  assert (K : 0 <= h) by (unfold h; lra).
  assert (U : q <= 1) by (pose proof (Rle_0_sqr (a + b - 1)) as S; unfold Rsqr in S; lra).
  assert (H : h * h <= q * q) by (apply Rmult_le_compat; lra).
  assert (q * q <= q) by nra. lra.
Qed.

Theorem odds_loss_l1 : forall a b, 0 <= a <= 1 -> 0 <= b <= 1 ->
  Rabs (a + b - 1) + 2 * odds_hessian a b <= 5 / 4.
Proof.
  intros a b A B. destruct (odds_hessian_below a b A B) as [P Q].
  pose proof (Rle_0_sqr (a + b - 1 / 2)) as S. pose proof (Rle_0_sqr (a + b - 3 / 2)) as T.
  unfold Rsqr in S, T. unfold Rabs. destruct (Rcase_abs (a + b - 1)); nra.
Qed.

Theorem odds_loss_linf : forall a b, 0 <= a <= 1 -> 0 <= b <= 1 ->
  Rabs (a + b - 1) <= 1 /\ 0 <= 2 * odds_hessian a b <= 1.
Proof.
  intros a b A B. destruct (odds_hessian_below a b A B) as [P Q].
  pose proof (Rle_0_sqr (a + b - 1)) as S. unfold Rsqr in S.
  split; [apply Rabs_le; lra|split; [lra|nra]].
Qed.

(* A larger factor would not do: at a = b = 1 / 2 the norm of (g, 2.01 h) exceeds 1. *)
Theorem odds_loss_sharp : 1 < (201 / 100) * odds_hessian (1 / 2) (1 / 2) * ((201 / 100) * odds_hessian (1 / 2) (1 / 2)).
Proof. unfold odds_hessian. lra. Qed.

(* ------------------------------------------------------------------------------- softmax *)
Fixpoint sumR (x : list R) : R := match x with [] => 0 | a :: r => a + sumR r end.
Definition squares (x : list R) : R := sumR (map (fun a => a * a) x).
Definition hessian (p : R) : R := p * (1 - p).

(* q: probability of the record's own class; rest: of the others. *)
Section Softmax.
  Variables (q : R) (rest : list R).
  Hypothesis q_in : 0 <= q.
  Hypothesis rest_in : Forall (fun p => 0 <= p) rest.
  Hypothesis sum_one : q + sumR rest = 1.

  Lemma rest_sum : forall x, Forall (fun p => 0 <= p) x -> 0 <= sumR x.
  Proof. intros x H. induction H; simpl; lra. Qed.

  Lemma rest_le : forall x, Forall (fun p => 0 <= p) x -> Forall (fun p => 0 <= p <= sumR x) x.
  Proof.
    intros x H. induction H as [|a x A H IH]; constructor.
    - simpl. pose proof (rest_sum x H). lra.
    - simpl. eapply Forall_impl; [|exact IH]. intros b B. simpl in B. lra.
  Qed.

  Lemma in_unit : Forall (fun p => 0 <= p <= 1) rest.
  Proof. eapply Forall_impl; [|apply rest_le, rest_in]. intros p P. simpl in P. lra. Qed.

  Lemma hess_squares : forall x, Forall (fun p => 0 <= p <= 1) x ->
    4 * squares (map hessian x) <= sumR x - squares x.
  Proof.
    intros x H. unfold squares. induction H as [|a x A H IH]; simpl; [lra|].
    unfold hessian at 1 2. pose proof (hessian_alone a A). nra.
  Qed.

  (* (g, 2 h): g = (q - 1, rest), h = hess of all *)
  Theorem softmax_l2 :
    ((1 - q) * (1 - q) + squares rest) + 4 * (hessian q * hessian q + squares (map hessian rest)) <= 2.
  Proof.
    pose proof (hess_squares rest in_unit).
    pose proof (rest_sum rest rest_in). pose proof (hessian_alone q ltac:(lra)) as Hq. fold (hessian q) in Hq.
    assert (4 * (hessian q * hessian q) <= q - q * q) by (unfold hessian in *; nra). nra.
  Qed.

  Lemma cauchy : forall x, sumR x * sumR x <= INR (length x) * squares x.
  Proof.
    assert (nn : forall x, 0 <= squares x) by (intro x; unfold squares; induction x; simpl; nra).
    induction x as [|a x IH]; [unfold squares; simpl; lra|].
    change (length (a :: x)) with (S (length x)). rewrite S_INR.
    change (sumR (a :: x)) with (a + sumR x). change (squares (a :: x)) with (a * a + squares x).
    specialize (nn x). pose proof (pos_INR (length x)) as N. set (n := INR (length x)) in *.
    destruct (Rle_lt_or_eq_dec 0 n N) as [P|P].
    - assert (0 <= (n * a - sumR x) * (n * a - sumR x)) by apply Rle_0_sqr.
      assert (E : n * (2 * a * sumR x) <= n * (n * a * a + squares x)) by nra.
      apply Rmult_le_reg_l in E; [|exact P]. nra.
    - rewrite <- P in *. assert (sumR x = 0) by nra. nra.
  Qed.

  Lemma sum_hess : forall x, sumR (map hessian x) = sumR x - squares x.
  Proof. unfold squares. induction x as [|a x IH]; simpl; [lra|]. rewrite IH. unfold hessian. lra. Qed.

  (* K - 1 = length rest >= 2 *)
  Theorem softmax_l1 : (2 <= length rest)%nat ->
    ((1 - q) + sumR rest) + 2 * (hessian q + sumR (map hessian rest)) <= 2 + 2 * (1 - 1 / INR (length rest)).
  Proof.
    intro K. rewrite sum_hess. pose proof (cauchy rest) as C.
    assert (N : 2 <= INR (length rest)) by (apply (le_INR 2); exact K).
    set (n := INR (length rest)) in *. set (s := squares rest) in *.
    replace (sumR rest) with (1 - q) in * by lra. unfold hessian.
    pose proof (rest_sum rest rest_in) as R0.
    apply (Rmult_le_reg_l n); [lra|].
    replace (n * (2 + 2 * (1 - 1 / n))) with (4 * n - 2) by (field; lra). nra.
  Qed.

  Theorem softmax_hessian_l2 : hessian q * hessian q + squares (map hessian rest) <= 4 / 27.
  Proof.
    assert (one : forall p, 0 <= p <= 1 -> hessian p * hessian p <= 4 / 27 * p).
    { intros p P. unfold hessian. assert (0 <= (p - 1 / 3) * (p - 1 / 3) * (4 / 3 - p)) by (apply Rmult_le_pos; [apply Rle_0_sqr|lra]).
      assert (p * ((1 - p) * (1 - p)) <= 4 / 27) by nra. nra. }
    pose proof (rest_sum rest rest_in).
    assert (A : squares (map hessian rest) <= 4 / 27 * sumR rest).
    { pose proof in_unit as U. clear - U one. unfold squares.
      induction U as [|a x A U IH]; simpl; [lra|]. specialize (one a A). lra. }
    specialize (one q ltac:(lra)). lra.
  Qed.

  Theorem softmax_hessian_l1 :
    hessian q + sumR (map hessian rest) <= 1 - 1 / INR (S (length rest)).
  Proof.
    rewrite sum_hess. pose proof (cauchy (q :: rest)) as C.
    change (length (q :: rest)) with (S (length rest)) in C.
    change (sumR (q :: rest)) with (q + sumR rest) in C. change (squares (q :: rest)) with (q * q + squares rest) in C.
    rewrite sum_one in C. assert (P : 0 < INR (S (length rest))) by (apply lt_0_INR; lia).
    set (n := INR (S (length rest))) in *. unfold hessian.
    apply (Rmult_le_reg_l n); [exact P|].
    replace (n * (1 - 1 / n)) with (n - 1) by (field; lra). nra.
  Qed.

  (* FirstOrder: (g, 1) *)
  Lemma squares_le : forall x, Forall (fun p => 0 <= p) x -> squares x <= sumR x * sumR x.
  Proof.
    intros x H. unfold squares. induction H as [|a x A H IH]; simpl; [lra|].
    pose proof (rest_sum x H). nra.
  Qed.
  Theorem first_order : ((1 - q) * (1 - q) + squares rest) + 1 <= 3 /\ ((1 - q) + sumR rest) + 1 <= 3.
  Proof.
    pose proof (squares_le rest rest_in). pose proof (rest_sum rest rest_in). split; nra.
  Qed.
End Softmax.

(* ------------------------------------------------------------- real numbers to the lattice *)
(* kernels/units.py: truncation toward zero *)
Definition trunc (x : R) : Z := if Rle_dec 0 x then Int_part x else (- Int_part (- x))%Z.

Lemma trunc_abs : forall x, IZR (Z.abs (trunc x)) <= Rabs x.
Proof.
  assert (nonneg : forall x, 0 <= x -> 0 <= IZR (Int_part x) <= x).
  { intros x P. destruct (base_Int_part x) as [A B]. split; [|exact A].
    assert (-1 < IZR (Int_part x)) by lra. apply (lt_IZR (-1)) in H. apply IZR_le. lia. }
  intro x. unfold trunc. destruct (Rle_dec 0 x) as [P|P].
  - specialize (nonneg x P). rewrite Rabs_pos_eq by exact P. rewrite Z.abs_eq; [lra|]. apply le_IZR. lra.
  - assert (Q : 0 <= - x) by lra. specialize (nonneg (- x) Q). rewrite <- Rabs_Ropp, Rabs_pos_eq by exact Q.
    rewrite Z.abs_opp, Z.abs_eq; [lra|]. apply le_IZR. lra.
Qed.

Definition units (unit : Z) (x : list R) : vector := map (fun a => trunc (IZR unit * a)) x.

(* on_lattice: if the real vector keeps the norms, its integers keep the rounded-up norms. *)
Theorem truncated_within : forall unit x n1 n2 n3 (b : sensitivity), (0 < unit)%Z ->
  sumR (map Rabs x) <= n1 -> squares x <= n2 -> Forall (fun a => Rabs a <= n3) x -> 0 <= n3 ->
  IZR unit * n1 <= IZR (l1 b) -> IZR unit * IZR unit * n2 <= IZR (l2_squared b) -> IZR unit * n3 <= IZR (linf b) ->
  within b (units unit x).
Proof.
  intros unit x n1 n2 n3 b U A B C N3 L1b L2b L3b.
  assert (P : 0 < IZR unit) by (apply IZR_lt; exact U).
  assert (E1 : IZR (L1 (units unit x)) <= IZR unit * sumR (map Rabs x)).
  { unfold L1, norm, units. clear - P. induction x as [|a x IH]; simpl; [lra|].
    rewrite plus_IZR. pose proof (trunc_abs (IZR unit * a)) as T. rewrite Rabs_mult, (Rabs_pos_eq (IZR unit)) in T by lra. lra. }
  assert (E2 : IZR (L2sq (units unit x)) <= IZR unit * IZR unit * squares x).
  { unfold L2sq, norm, units, squares. clear - P. induction x as [|a x IH]; simpl; [lra|].
    rewrite plus_IZR. unfold square at 1. rewrite <- (Z.abs_square (trunc (IZR unit * a))), mult_IZR.
    pose proof (trunc_abs (IZR unit * a)) as T.
    assert (0 <= IZR (Z.abs (trunc (IZR unit * a)))) by (apply IZR_le; lia).
    assert (R : Rabs (IZR unit * a) * Rabs (IZR unit * a) = IZR unit * IZR unit * (a * a)).
    { rewrite <- Rabs_mult, Rabs_pos_eq; [ring|]. apply Rle_0_sqr. }
    nra. }
  assert (E3 : IZR (Linf (units unit x)) <= IZR unit * n3).
  { unfold units. clear - P C N3. induction C as [|a x A C IH]; simpl; [nra|].
    pose proof (trunc_abs (IZR unit * a)) as T. rewrite Rabs_mult, (Rabs_pos_eq (IZR unit)) in T by lra.
    destruct (Z.max_spec (Z.abs (trunc (IZR unit * a))) (Linf (map (fun a => trunc (IZR unit * a)) x))) as [[_ ->]|[_ ->]]; nra. }
  unfold within. repeat split; apply le_IZR; [nra|nra|lra].
Qed.
