(* The bounds that registered statistics declare, as one computable table: privacy/queries/statistics.py,
   models/losses.py. `Replay.v`, written by proofs/replay.py, holds Python's own numbers against it. *)
From Coq Require Import ZArith List Lia Reals Lra.
From Hedgerow Require Import Sums Sensitivity Losses.
Import ListNotations.
Open Scope Z_scope.

Inductive loss :=
| LogLoss | PlainLogLoss | OddsLoss
| Softmax (classes : Z)                 (* 3 or more *)
| Squared (num den : Z)                 (* weight = num / den, 0 < weight <= 1 *)
| FirstOrder (classes : Z).             (* 2, or 3 and more *)

Inductive statistic :=
| Count | ClassCounts | TargetClassCounts | Fractions
| Gradients (l : loss) | Hessians (l : loss) | CurveNewton (channels : Z)
| LabelReports (bits : Z).              (* randomized reports: 0 or 1 in every channel *)

(* numerator / denominator of the largest L1, squared L2 and Linf norm of one record's vector *)
Definition norms (l : loss) : (Z * Z) * (Z * Z) * (Z * Z) :=
  match l with
  | LogLoss => ((187489, 133200), (1, 1), (1, 1))
  | PlainLogLoss => ((1, 1), (1, 1), (1, 1))
  | OddsLoss => ((5, 4), (1, 1), (1, 1))
  | Softmax k => ((4 * (k - 1) - 2, k - 1), (2, 1), (1, 1))
  | Squared n d => ((d + n, d), (d * d + n * n, d * d), (1, 1))
  | FirstOrder k => if k =? 2 then ((2, 1), (2, 1), (1, 1)) else ((3, 1), (3, 1), (1, 1))
  end.
Definition hessian_norms (l : loss) : (Z * Z) * (Z * Z) * (Z * Z) :=
  match l with
  | LogLoss | PlainLogLoss => ((1, 4), (1, 16), (1, 4))
  | OddsLoss => ((1, 2), (1, 4), (1, 2))
  | Softmax k => ((k - 1, k), (4, 27), (1, 4))
  | Squared _ _ | FirstOrder _ => ((1, 1), (1, 1), (1, 1))
  end.

Definition round_up (a : Z * Z) (scale : Z) : Z := (fst a * scale + snd a - 1) / snd a.
Definition on_lattice (n : (Z * Z) * (Z * Z) * (Z * Z)) (unit : Z) : sensitivity :=
  let '(a, b, d) := n in Sens (round_up a unit) (round_up b (unit * unit)) (round_up d unit).

Definition bound_of (s : statistic) (unit : Z) : sensitivity :=
  match s with
  | Count | ClassCounts | TargetClassCounts => Sens 1 1 1
  | Fractions => Sens unit (unit * unit) unit
  | Gradients l => on_lattice (norms l) unit
  | Hessians l => on_lattice (hessian_norms l) unit
  | CurveNewton ch => Sens (Z.sqrt (ch * (unit * unit)) + 1) (unit * unit) unit
  | LabelReports bits => Sens (bits + 1) (bits + 1) 1
  end.

(* SumQuery.sensitivity, for one person of m records *)
Definition query_bound (s : statistic) (groups : nat) (m unit : Z) : sensitivity :=
  of_person (repeated (bound_of s unit) groups) m.

(* ------------------------------------------------------------------ honest records keep them *)
Lemma round_up_ge : forall a b scale, 0 < b -> (IZR scale * (IZR a / IZR b) <= IZR (round_up (a, b) scale))%R.
Proof.
  intros a b scale B. unfold round_up. cbn [fst snd].
  assert (P : (0 < IZR b)%R) by (apply IZR_lt, B).
  assert (H : a * scale <= (a * scale + b - 1) / b * b).
  { pose proof (Z.div_mod (a * scale + b - 1) b ltac:(lia)). pose proof (Z.mod_pos_bound (a * scale + b - 1) b B). lia. }
  apply IZR_le in H. rewrite !mult_IZR in H.
  apply (Rmult_le_reg_r (IZR b)); [exact P|].
  replace (IZR scale * (IZR a / IZR b) * IZR b)%R with (IZR a * IZR scale)%R by (field; lra). exact H.
Qed.

(* Counts: 1 in one channel. *)
Fixpoint one_hot (channels k : nat) : vector :=
  match channels with O => [] | S n => match k with O => 1 :: zeros n | S k' => 0 :: one_hot n k' end end.
Theorem counts_not_clamped : forall channels k unit, within (bound_of ClassCounts unit) (one_hot channels k).
Proof.
  intros channels k unit. cbn [bound_of]. revert k.
  induction channels as [|n IH]; intro k; [cbv; repeat split; discriminate|].
  destruct k as [|k]; cbn [one_hot]; unfold within, L1, L2sq in *; cbn [Linf l1 l2_squared linf] in *;
    rewrite !norm_cons.
  - rewrite !norm_zeros, Linf_zeros by reflexivity. cbv; repeat split; discriminate.
  - destruct (IH k) as [a [b d]]. change (Z.abs 0) with 0. change (square 0) with 0. lia.
Qed.

Theorem fractions_not_clamped : forall unit a, 0 <= a <= unit -> within (bound_of Fractions unit) [unit - a; a].
Proof.
  intros unit a A. unfold within, L1, L2sq, norm, square. simpl. repeat split; try lia. nia.
Qed.

Theorem reports_not_clamped : forall bits unit reported, Z.of_nat (length reported) = bits + 1 ->
  Forall (fun a => a = 0 \/ a = 1) reported -> within (bound_of (LabelReports bits) unit) reported.
Proof.
  intros bits unit reported L F. cbn [bound_of]. unfold within. cbn [l1 l2_squared linf].
  rewrite <- L. clear L. unfold L1, L2sq.
  assert (H : norm Z.abs reported <= Z.of_nat (length reported) /\
              norm square reported <= Z.of_nat (length reported) /\ Linf reported <= 1).
  { induction F as [|a x A F [I1 [I2 I3]]]; [cbv; repeat split; discriminate|].
    rewrite !norm_cons. cbn [length Linf]. rewrite Nat2Z.inj_succ.
    destruct A as [-> | ->];
      [change (Z.abs 0) with 0; change (square 0) with 0|change (Z.abs 1) with 1; change (square 1) with 1];
      repeat split; lia. }
  exact H.
Qed.

Open Scope R_scope.
Theorem squared_error_not_clamped : forall unit n d g, (0 < unit)%Z -> (0 < n <= d)%Z -> -1 <= g <= 1 ->
  within (bound_of (Gradients (Squared n d)) unit) (units unit [g; IZR n / IZR d]).
Proof.
  intros unit n d g U [N D] G.
  assert (P : 0 < IZR n) by (apply IZR_lt, N). assert (Q : IZR n <= IZR d) by (apply IZR_le, D).
  assert (W : 0 < IZR n / IZR d <= 1).
  { split; [apply Rdiv_lt_0_compat; lra|]. apply (Rmult_le_reg_r (IZR d)); [lra|].
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (A : Rabs g <= 1) by (apply Rabs_le; lra).
  assert (B : Rabs (IZR n / IZR d) = IZR n / IZR d) by (apply Rabs_pos_eq; lra).
  assert (D0 : (0 < d)%Z) by lia.
  apply (truncated_within unit _ (IZR (d + n) / IZR d) (IZR (d * d + n * n) / IZR (d * d)) (IZR 1 / IZR 1)); try exact U.
  - simpl. rewrite B, plus_IZR. replace ((IZR d + IZR n) / IZR d) with (1 + IZR n / IZR d) by (field; lra). lra.
  - unfold squares. simpl. rewrite plus_IZR, !mult_IZR.
    replace ((IZR d * IZR d + IZR n * IZR n) / (IZR d * IZR d)) with (1 + IZR n / IZR d * (IZR n / IZR d)) by (field; lra).
    assert (g * g <= 1) by nra. lra.
  - constructor; [lra|constructor; [rewrite B; lra|constructor]].
  - lra.
  - apply round_up_ge, D0.
  - rewrite <- mult_IZR. apply round_up_ge. nia.
  - apply round_up_ge. lia.
Qed.

Theorem plain_log_loss_not_clamped : forall unit p, (0 < unit)%Z -> 0 <= p <= 1 ->
  within (bound_of (Gradients PlainLogLoss) unit) (units unit [p - 1; p * (1 - p)]).
Proof.
  intros unit p U P. pose proof (hessian_alone p P) as H. destruct (plain_log_loss p P) as [S1 S2].
  assert (N : Rabs (p - 1) = 1 - p) by (rewrite Rabs_left1; lra).
  assert (M : Rabs (p * (1 - p)) = p * (1 - p)) by (apply Rabs_pos_eq; lra).
  apply (truncated_within unit _ (IZR 1 / IZR 1) (IZR 1 / IZR 1) (IZR 1 / IZR 1)); try exact U.
  - simpl. rewrite N, M. lra.
  - unfold squares. simpl. nra.
  - constructor; [rewrite N; lra|constructor; [rewrite M; lra|constructor]].
  - lra.
  - apply round_up_ge. lia.
  - rewrite <- mult_IZR. apply round_up_ge. lia.
  - apply round_up_ge. lia.
Qed.

Theorem binary_hessian_not_clamped : forall unit p, (0 < unit)%Z -> 0 <= p <= 1 ->
  within (bound_of (Hessians LogLoss) unit) (units unit [p * (1 - p)]).
Proof.
  intros unit p U P. pose proof (hessian_alone p P) as H.
  assert (M : Rabs (p * (1 - p)) = p * (1 - p)) by (apply Rabs_pos_eq; lra).
  apply (truncated_within unit _ (IZR 1 / IZR 4) (IZR 1 / IZR 16) (IZR 1 / IZR 4)); try exact U.
  - simpl. rewrite M. lra.
  - unfold squares. simpl. nra.
  - constructor; [rewrite M; lra|constructor].
  - lra.
  - apply round_up_ge. lia.
  - rewrite <- mult_IZR. apply round_up_ge. lia.
  - apply round_up_ge. lia.
Qed.

Theorem log_loss_not_clamped : forall unit p, (0 < unit)%Z -> 0 <= p <= 1 ->
  within (bound_of (Gradients LogLoss) unit) (units unit [p - 1; hessian_scale * (p * (1 - p))]).
Proof.
  intros unit p U P. pose proof (hessian_alone p P) as H.
  assert (C : 0 < hessian_scale) by (unfold hessian_scale; lra).
  assert (N : Rabs (p - 1) = 1 - p) by (rewrite Rabs_left1; lra).
  assert (M : Rabs (hessian_scale * (p * (1 - p))) = hessian_scale * (p * (1 - p))) by (apply Rabs_pos_eq; nra).
  apply (truncated_within unit _ (IZR 187489 / IZR 133200) (IZR 1 / IZR 1) (IZR 1 / IZR 1)); try exact U.
  - simpl. rewrite N, M. pose proof (log_loss_l1 p P). lra.
  - unfold squares. simpl. pose proof (log_loss_l2 p P). nra.
  - destruct (log_loss_linf p P). constructor; [rewrite N; lra|constructor; [rewrite M; lra|constructor]].
  - lra.
  - apply round_up_ge. lia.
  - rewrite <- mult_IZR. apply round_up_ge. lia.
  - apply round_up_ge. lia.
Qed.

Theorem odds_loss_not_clamped : forall unit a b, (0 < unit)%Z -> 0 <= a <= 1 -> 0 <= b <= 1 ->
  within (bound_of (Gradients OddsLoss) unit) (units unit [a + b - 1; 2 * odds_hessian a b]).
Proof.
  intros unit a b U A B. destruct (odds_loss_linf a b A B) as [N [M0 M1]].
  assert (M : Rabs (2 * odds_hessian a b) = 2 * odds_hessian a b) by (apply Rabs_pos_eq, M0).
  apply (truncated_within unit _ (IZR 5 / IZR 4) (IZR 1 / IZR 1) (IZR 1 / IZR 1)); try exact U.
  - simpl. rewrite M. pose proof (odds_loss_l1 a b A B). lra.
  - unfold squares. simpl. pose proof (odds_loss_l2 a b A B). lra.
  - constructor; [lra|constructor; [rewrite M; lra|constructor]].
  - lra.
  - apply round_up_ge. lia.
  - rewrite <- mult_IZR. apply round_up_ge. lia.
  - apply round_up_ge. lia.
Qed.

Theorem censored_odds_not_clamped : forall unit a, (0 < unit)%Z -> 0 <= a <= 1 ->
  within (bound_of (Gradients OddsLoss) unit) (units unit [a; 2 * odds_hessian a 0]).
Proof.
  intros unit a U A. assert (B : 0 <= 1 - a <= 1) by lra. assert (Z0 : 0 <= 0 <= 1) by lra.
  assert (E : odds_hessian (1 - a) 0 = odds_hessian a 0) by (unfold odds_hessian; ring).
  destruct (odds_loss_linf (1 - a) 0 B Z0) as [N [M0 M1]]. rewrite E in M0, M1.
  assert (M : Rabs (2 * odds_hessian a 0) = 2 * odds_hessian a 0) by (apply Rabs_pos_eq, M0).
  assert (G : Rabs (1 - a + 0 - 1) = Rabs a) by (replace (1 - a + 0 - 1) with (- a) by ring; apply Rabs_Ropp).
  apply (truncated_within unit _ (IZR 5 / IZR 4) (IZR 1 / IZR 1) (IZR 1 / IZR 1)); try exact U.
  - simpl. rewrite M. pose proof (odds_loss_l1 (1 - a) 0 B Z0) as H. rewrite E, G in H. lra.
  - unfold squares. simpl. pose proof (odds_loss_l2 (1 - a) 0 B Z0) as H. rewrite E in H. nra.
  - rewrite G in N. constructor; [lra|constructor; [rewrite M; lra|constructor]].
  - lra.
  - apply round_up_ge. lia.
  - rewrite <- mult_IZR. apply round_up_ge. lia.
  - apply round_up_ge. lia.
Qed.

Theorem odds_hessian_not_clamped : forall unit a b, (0 < unit)%Z -> 0 <= a <= 1 -> 0 <= b <= 1 ->
  within (bound_of (Hessians OddsLoss) unit) (units unit [odds_hessian a b]).
Proof.
  intros unit a b U A B. destruct (odds_loss_linf a b A B) as [_ [M0 M1]].
  assert (M : Rabs (odds_hessian a b) = odds_hessian a b) by (apply Rabs_pos_eq; lra).
  apply (truncated_within unit _ (IZR 1 / IZR 2) (IZR 1 / IZR 4) (IZR 1 / IZR 2)); try exact U.
  - simpl. rewrite M. lra.
  - unfold squares. simpl. nra.
  - constructor; [rewrite M; lra|constructor].
  - lra.
  - apply round_up_ge. lia.
  - rewrite <- mult_IZR. apply round_up_ge. lia.
  - apply round_up_ge. lia.
Qed.

Theorem softmax_not_clamped : forall unit q rest, (0 < unit)%Z -> 0 <= q -> List.Forall (fun p => 0 <= p) rest ->
  q + sumR rest = 1 -> (2 <= length rest)%nat ->
  within (bound_of (Gradients (Softmax (Z.of_nat (S (length rest))))) unit)
         (units unit ((q - 1) :: rest ++ 2 * hessian q :: map (fun p => 2 * hessian p) rest)).
Proof.
  intros unit q rest U Q F One K.
  pose proof (in_unit q rest Q F One) as I.
  pose proof (rest_sum rest F) as R0.
  assert (Hq : 0 <= hessian q <= 1 / 4) by (apply hessian_alone; lra).
  assert (app_sum : forall (f : R -> R) x y, sumR (map f (x ++ y)) = sumR (map f x) + sumR (map f y)).
  { intros f x y. induction x as [|a x IH]; simpl; [lra|]. rewrite IH. lra. }
  assert (abs_rest : forall x, List.Forall (fun p => 0 <= p <= 1) x -> sumR (map Rabs x) = sumR x).
  { intros x H. induction H as [|a x A H IH]; simpl; [reflexivity|]. rewrite IH, Rabs_pos_eq by lra. reflexivity. }
  assert (abs_hess : forall x, List.Forall (fun p => 0 <= p <= 1) x ->
            sumR (map Rabs (map (fun p => 2 * hessian p) x)) = 2 * sumR (map hessian x)).
  { intros x H. induction H as [|a x A H IH]; simpl; [lra|]. pose proof (hessian_alone a A). fold (hessian a) in *.
    rewrite IH, Rabs_pos_eq by (unfold hessian in *; lra). lra. }
  assert (sq_hess : forall x, sumR (map (fun a => a * a) (map (fun p => 2 * hessian p) x)) = 4 * squares (map hessian x)).
  { unfold squares. intro x. induction x as [|a x IH]; simpl; [lra|]. rewrite IH. lra. }
  assert (N : INR (length rest) <> 0) by (apply not_0_INR; lia).
  apply (truncated_within unit _ (IZR (4 * (Z.of_nat (S (length rest)) - 1) - 2) / IZR (Z.of_nat (S (length rest)) - 1))
           (IZR 2 / IZR 1) (IZR 1 / IZR 1)); try exact U.
  - simpl map. simpl sumR. rewrite app_sum. simpl map. simpl sumR. rewrite abs_rest, abs_hess by exact I.
    rewrite (Rabs_left1 (q - 1)), (Rabs_pos_eq (2 * hessian q)) by lra.
    pose proof (softmax_l1 q rest Q F One K).
    replace (Z.of_nat (S (length rest)) - 1)%Z with (Z.of_nat (length rest)) by lia.
    rewrite minus_IZR, mult_IZR, <- INR_IZR_INZ.
    replace ((4 * INR (length rest) - 2) / INR (length rest)) with (2 + 2 * (1 - 1 / INR (length rest))) by (field; exact N).
    lra.
  - unfold squares. simpl map. simpl sumR. rewrite app_sum. simpl map. simpl sumR. rewrite sq_hess.
    fold (squares rest). pose proof (softmax_l2 q rest Q F One). lra.
  - constructor; [rewrite Rabs_left1; lra|]. apply Forall_app. split; [|constructor; [rewrite Rabs_pos_eq; lra|]].
    + eapply Forall_impl; [|exact I]. intros a A. cbn beta in A. rewrite Rabs_pos_eq; lra.
    + apply Forall_map. eapply Forall_impl; [|exact I]. intros a A. cbn beta in A. pose proof (hessian_alone a A).
      fold (hessian a) in *. rewrite Rabs_pos_eq; unfold hessian in *; lra.
  - lra.
  - apply round_up_ge. lia.
  - rewrite <- mult_IZR. apply round_up_ge. lia.
  - apply round_up_ge. lia.
Qed.
