(* Private selection by integer scores: privacy/mechanisms/selection.py, docs/proofs/samplers.md section 7.

   One record moves every score by an amount in [low, low + range], the same low for all. *)
From Coq Require Import Reals ZArith List Lia Lra Arith.
From Coq Require FinFun.
From Hedgerow Require Import Laplace.
Import ListNotations.

Definition moved (low range : Z) (u u' : list Z) : Prop :=
  Forall2 (fun a b => low <= b - a <= low + range)%Z u u'.

Lemma moved_back : forall low range u u', moved low range u u' -> moved (- low - range) range u' u.
Proof. intros low range u u' H. induction H; constructor; [lia|assumption]. Qed.

Lemma moved_on : forall low range low' range' u v w,
  moved low range u v -> moved low' range' v w -> moved (low + low') (range + range') u w.
Proof.
  intros low range low' range' u v w H. revert w.
  induction H as [|a b u v E H IH]; intros w K; inversion K; subst; constructor; [lia|apply IH; assumption].
Qed.

Open Scope R_scope.

(* A mechanism: the probability of each index, given a coefficient and scores. *)
Record mechanism := Mechanism {
  probability_of_index : R -> list Z -> nat -> R;
  probability_of_index_nonneg : forall c u i, 0 <= c -> 0 <= probability_of_index c u i;
  probability_of_index_ratio : forall c low range u u' i, 0 <= c -> (0 <= range)%Z -> moved low range u u' ->
    probability_of_index c u i <= exp (c * IZR range) * probability_of_index c u' i;
}.

Lemma exp_le : forall x y, x <= y -> exp x <= exp y.
Proof. intros x y [H|H]; [left; apply exp_increasing, H|right; congruence]. Qed.

(* ------------------------------------------------------------------- exponential mechanism *)
Definition weight (c : R) (u : Z) : R := exp (c * IZR u).
Fixpoint weights (c : R) (u : list Z) : R :=
  match u with [] => 0 | a :: r => weight c a + weights c r end.
Definition exponential (c : R) (u : list Z) (i : nat) : R :=
  match nth_error u i with Some a => weight c a / weights c u | None => 0 end.

Lemma weights_nonneg : forall c u, 0 <= weights c u.
Proof. induction u as [|a u IH]; simpl; [lra|]. pose proof (exp_pos (c * IZR a)). unfold weight. lra. Qed.

Lemma weights_pos : forall c u, u <> [] -> 0 < weights c u.
Proof.
  intros c [|a u] H; [congruence|]. simpl. pose proof (weights_nonneg c u).
  pose proof (exp_pos (c * IZR a)). unfold weight. lra.
Qed.

Lemma weight_moved : forall c low range a b, 0 <= c -> (low <= b - a <= low + range)%Z ->
  exp (c * IZR low) * weight c a <= weight c b <= exp (c * IZR (low + range)) * weight c a.
Proof.
  intros c low range a b pos [H K]. unfold weight. rewrite <- !exp_plus.
  split; apply exp_le; rewrite <- Rmult_plus_distr_l, <- plus_IZR;
    apply Rmult_le_compat_l; try assumption; apply IZR_le; lia.
Qed.

Lemma weights_moved : forall c low range u u', 0 <= c -> moved low range u u' ->
  weights c u' <= exp (c * IZR (low + range)) * weights c u.
Proof.
  intros c low range u u' pos H. induction H as [|a b u u' E H IH]; simpl; [lra|].
  destruct (weight_moved c low range a b pos E). lra.
Qed.

Lemma nth_moved : forall low range u u' i a, moved low range u u' -> nth_error u i = Some a ->
  exists b, nth_error u' i = Some b /\ (low <= b - a <= low + range)%Z.
Proof.
  intros low range u u' i a H. revert i. induction H as [|x y u u' E H IH]; intros [|i] N; simpl in *;
    try discriminate N.
  - injection N as <-. exists y. split; [reflexivity|exact E].
  - apply IH, N.
Qed.

Theorem exponential_ratio : forall c low range u u' i, 0 <= c -> (0 <= range)%Z -> moved low range u u' ->
  exponential c u i <= exp (c * IZR range) * exponential c u' i.
Proof.
  intros c low range u u' i pos r H. unfold exponential.
  destruct (nth_error u i) as [a|] eqn:N.
  - destruct (nth_moved _ _ _ _ _ _ H N) as [b [N' E]]. rewrite N'.
    assert (u <> []) by (intro; subst; destruct i; discriminate N).
    assert (u' <> []) by (intro; subst; destruct i; discriminate N').
    pose proof (weights_pos c u ltac:(assumption)). pose proof (weights_pos c u' ltac:(assumption)).
    destruct (weight_moved c low range a b pos E) as [W _].
    pose proof (weights_moved c low range u u' pos H) as V.
    rewrite plus_IZR, Rmult_plus_distr_l, exp_plus in V.
    pose proof (exp_pos (c * IZR low)) as L. pose proof (exp_pos (c * IZR range)).
    pose proof (exp_pos (c * IZR a)) as A. fold (weight c a) in A.
    set (x := exp (c * IZR low)) in *. set (y := exp (c * IZR range)) in *.
    set (s := weights c u) in *. set (s' := weights c u') in *. set (wa := weight c a) in *.
    apply (Rmult_le_reg_r s); [assumption|]. apply (Rmult_le_reg_r s'); [assumption|].
    apply (Rmult_le_reg_l x); [assumption|].
    replace (x * (wa / s * s * s')) with (x * wa * s') by (field; lra).
    replace (x * (y * (weight c b / s') * s * s')) with (x * y * s * weight c b) by (field; lra).
    apply Rle_trans with (x * wa * (x * y * s)); [apply Rmult_le_compat_l; [nra|exact V]|].
    replace (x * wa * (x * y * s)) with (x * y * s * (x * wa)) by ring.
    apply Rmult_le_compat_l; [|exact W]. apply Rmult_le_pos; [nra|lra].
  - destruct (nth_error u' i) as [b|] eqn:N'; [|lra].
    destruct (nth_moved _ _ _ _ _ _ (moved_back _ _ _ _ H) N') as [a [N'' _]]. congruence.
Qed.

Lemma exponential_nonneg : forall c u i, 0 <= c -> 0 <= exponential c u i.
Proof.
  intros c u i _. unfold exponential. destruct (nth_error u i) as [a|] eqn:N; [|lra].
  apply Rmult_le_pos; [left; apply exp_pos|]. left. apply Rinv_0_lt_compat, weights_pos.
  intro; subst; destruct i; discriminate N.
Qed.

Definition Exponential : mechanism := Mechanism exponential exponential_nonneg exponential_ratio.

(* --------------------------------------------------------------------------- report noisy max
   Discrete Laplace noise of rate c on every score; the largest wins, among equals the first. Only
   the index is released. `below c t` is the probability that noise is at most t. *)
Definition below (c : R) (t : Z) : R :=
  if (0 <=? t)%Z then 1 - exp (- c * IZR (t + 1)) / (1 + exp (- c)) else exp (- c * IZR (- t)) / (1 + exp (- c)).

Theorem below_is_the_distribution : forall c t, below c t - below c (t - 1) = laplace c t.
Proof.
  intros c t. pose proof (exp_pos (- c)) as E. unfold below, laplace.
  destruct (Z.leb_spec 0 t) as [T|T].
  - rewrite Z.abs_eq by exact T. destruct (Z.leb_spec 0 (t - 1)) as [U|U].
    + replace (t - 1 + 1)%Z with t by lia. rewrite plus_IZR.
      replace (- c * (IZR t + 1)) with (- c * IZR t + - c) by ring. rewrite exp_plus. field. lra.
    + replace t with 0%Z by lia. simpl (0 - 1)%Z. simpl (- (-1))%Z. simpl (0 + 1)%Z.
      replace (- c * 1) with (- c) by ring. replace (- c * 0) with 0 by ring. rewrite exp_0. field. lra.
  - rewrite Z.abs_neq by lia. destruct (Z.leb_spec 0 (t - 1)) as [U|U]; [lia|].
    replace (- (t - 1))%Z with (- t + 1)%Z by lia. rewrite plus_IZR.
    replace (- c * (IZR (- t) + 1)) with (- c * IZR (- t) + - c) by ring. rewrite exp_plus. field. lra.
Qed.

Lemma below_bounds : forall c t, 0 <= c -> 0 <= below c t <= 1.
Proof.
  intros c t C. pose proof (exp_pos (- c)) as E. unfold below.
  assert (L : forall n, (0 <= n)%Z -> 0 <= exp (- c * IZR n) / (1 + exp (- c)) <= 1).
  { intros n N. pose proof (exp_pos (- c * IZR n)).
    assert (exp (- c * IZR n) <= 1) by (rewrite <- exp_0; apply exp_le; apply IZR_le in N; nra).
    split; [left; apply Rdiv_lt_0_compat; lra|].
    apply (Rmult_le_reg_r (1 + exp (- c))); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  destruct (Z.leb_spec 0 t) as [T|T]; [specialize (L (t + 1)%Z ltac:(lia))|specialize (L (- t)%Z ltac:(lia))]; lra.
Qed.

Lemma laplace_nonneg : forall c k, 0 <= c -> 0 <= laplace c k.
Proof.
  intros c k C. unfold laplace. pose proof (exp_pos (- c)).
  assert (exp (- c) <= 1) by (rewrite <- exp_0; apply exp_le; lra).
  apply Rmult_le_pos; [|left; apply exp_pos]. apply Rmult_le_pos; [lra|]. left. apply Rinv_0_lt_compat. lra.
Qed.

Lemma below_grows : forall c s t, 0 <= c -> (s <= t)%Z -> below c s <= below c t.
Proof.
  intros c s t C H. replace t with (s + Z.of_nat (Z.to_nat (t - s)))%Z by lia.
  generalize (Z.to_nat (t - s)). intro n. induction n as [|n IH]; [rewrite Z.add_0_r; lra|].
  eapply Rle_trans; [exact IH|].
  pose proof (below_is_the_distribution c (s + Z.of_nat (S n))) as D.
  replace (s + Z.of_nat (S n) - 1)%Z with (s + Z.of_nat n)%Z in D by lia.
  pose proof (laplace_nonneg c (s + Z.of_nat (S n)) C). lra.
Qed.

(* The others stay below y: those before the index strictly, those after it may be equal. *)
Fixpoint all_below (c : R) (y : Z) (u : list Z) (i : nat) : R :=
  match u with
  | [] => 1
  | a :: r => match i with
              | O => fold_right (fun b p => below c (y - b) * p) 1 r
              | S i' => below c (y - a - 1) * all_below c y r i'
              end
  end.

Lemma after_bounds : forall c y r, 0 <= c -> 0 <= fold_right (fun b p => below c (y - b) * p) 1 r <= 1.
Proof.
  intros c y r C. induction r as [|b r IH]; simpl; [lra|]. pose proof (below_bounds c (y - b) C). split; nra.
Qed.
Lemma all_below_bounds : forall c y u i, 0 <= c -> 0 <= all_below c y u i <= 1.
Proof.
  intros c y u. induction u as [|a u IH]; intros i C; simpl; [lra|]. destruct i as [|i]; [apply after_bounds, C|].
  pose proof (below_bounds c (y - a - 1) C). specialize (IH i C). split; nra.
Qed.

(* If y moves up by at least as much as every other score, the others stay below it as likely. *)
Lemma all_below_moved : forall c up y y' u u' i, 0 <= c -> (y' - y >= up)%Z ->
  Forall2 (fun a b => b - a <= up)%Z u u' -> all_below c y u i <= all_below c y' u' i.
Proof.
  intros c up y y' u u' i C Y H. revert i. induction H as [|a b u u' E H IH]; intro i; simpl; [lra|].
  destruct i as [|i].
  - clear IH. induction H as [|a' b' u u' E' H IH]; simpl; [lra|].
    pose proof (below_grows c (y - a') (y' - b') C ltac:(lia)). pose proof (below_bounds c (y - a') C).
    pose proof (after_bounds c y u C). nra.
  - pose proof (below_grows c (y - a - 1) (y' - b - 1) C ltac:(lia)). pose proof (below_bounds c (y - a - 1) C).
    pose proof (all_below_bounds c y u i C). specialize (IH i). nra.
Qed.

(* Index i wins with noise z on its own score, for some z of a list. *)
Definition wins_with (c : R) (u : list Z) (i : nat) (zs : list Z) : R :=
  match nth_error u i with
  | Some a => fold_right (fun z p => laplace c z * all_below c (a + z) u i + p) 0 zs
  | None => 0
  end.

Lemma laplace_shift : forall c z range, 0 <= c -> (0 <= range)%Z ->
  laplace c z <= exp (c * IZR range) * laplace c (z + range).
Proof.
  intros c z range C R. unfold laplace. pose proof (exp_pos (- c)).
  assert (exp (- c) <= 1) by (rewrite <- exp_0; apply exp_le; lra).
  set (k := (1 - exp (- c)) / (1 + exp (- c))).
  assert (K : 0 <= k) by (apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]).
  replace (exp (c * IZR range) * (k * exp (- c * IZR (Z.abs (z + range)))))
    with (k * (exp (c * IZR range) * exp (- c * IZR (Z.abs (z + range))))) by ring.
  apply Rmult_le_compat_l; [exact K|]. rewrite <- exp_plus. apply exp_le.
  assert (T : (Z.abs (z + range) <= Z.abs z + range)%Z) by lia. apply IZR_le in T. rewrite plus_IZR in T. nra.
Qed.

(* Whatever noise lets i win, `range` more of it lets it win on the neighbour: the same number of
   terms, each at most exp(c range) times the other. *)
Lemma wins_with_moved : forall c low range u u' i zs, 0 <= c -> (0 <= range)%Z -> moved low range u u' ->
  wins_with c u i zs <= exp (c * IZR range) * wins_with c u' i (map (fun z => z + range)%Z zs).
Proof.
  intros c low range u u' i zs C R H. unfold wins_with.
  destruct (nth_error u i) as [a|] eqn:N.
  - destruct (nth_moved _ _ _ _ _ _ H N) as [b [N' E]]. rewrite N'.
    assert (F : Forall2 (fun x y => y - x <= low + range)%Z u u').
    { clear - H. induction H; constructor; [lia|assumption]. }
    induction zs as [|z zs IH]; simpl; [lra|]. rewrite Rmult_plus_distr_l. apply Rplus_le_compat; [|exact IH].
    pose proof (laplace_shift c z range C R). pose proof (laplace_nonneg c z C).
    assert (M : all_below c (a + z) u i <= all_below c (b + (z + range)) u' i)
      by (apply (all_below_moved c (low + range)); [exact C|lia|exact F]).
    pose proof (all_below_bounds c (a + z) u i C).
    rewrite <- Rmult_assoc. apply Rmult_le_compat; lra.
  - destruct (nth_error u' i) as [b|] eqn:N'; [|lra].
    destruct (nth_moved _ _ _ _ _ _ (moved_back _ _ _ _ H) N') as [a [N'' _]]. congruence.
Qed.

(* The probability of an index: the least upper bound over all lists of different noises. *)
Lemma wins_with_bounds : forall c u i zs, 0 <= c -> NoDup zs -> 0 <= wins_with c u i zs <= 1.
Proof.
  intros c u i zs C N. unfold wins_with. destruct (nth_error u i) as [a|]; [|lra].
  assert (B : 0 <= fold_right (fun z p => laplace c z * all_below c (a + z) u i + p) 0 zs <= sum_of (laplace c) zs).
  { clear N. induction zs as [|z zs IH]; [simpl; lra|]. rewrite sum_of_cons. simpl.
    pose proof (laplace_nonneg c z C). pose proof (all_below_bounds c (a + z) u i C). nra. }
  assert (T : sum_of (laplace c) zs <= 1); [|lra].
  destruct C as [P|<-]; [apply laplace_of_distinct; assumption|].
  assert (Z0 : sum_of (laplace 0) zs = 0); [|lra].
  clear. induction zs as [|z zs IH]; [reflexivity|]. rewrite sum_of_cons, IH. unfold laplace.
  replace (- 0) with 0 by ring. rewrite exp_0. field.
Qed.

(* As a total function: 0 for a negative coefficient, which nobody uses. *)
Definition winning (c : R) (u : list Z) (i : nat) (x : R) : Prop :=
  x = 0 \/ (0 <= c /\ exists zs, NoDup zs /\ x = wins_with c u i zs).
Lemma winning_bounded : forall c u i, bound (winning c u i).
Proof.
  intros c u i. exists 1. intros x [->|[C [zs [N ->]]]]; [lra|]. apply (wins_with_bounds c u i zs C N).
Qed.
Lemma winning_inhabited : forall c u i, exists x, winning c u i x.
Proof. intros c u i. exists 0. left. reflexivity. Qed.
Definition noisy_max (c : R) (u : list Z) (i : nat) : R :=
  proj1_sig (completeness (winning c u i) (winning_bounded c u i) (winning_inhabited c u i)).

Lemma noisy_max_is_lub : forall c u i, is_lub (winning c u i) (noisy_max c u i).
Proof. intros c u i. unfold noisy_max. destruct (completeness _ _ _) as [x H]. exact H. Qed.

Lemma noisy_max_nonneg : forall c u i, 0 <= c -> 0 <= noisy_max c u i.
Proof. intros c u i _. destruct (noisy_max_is_lub c u i) as [upper _]. apply upper. left. reflexivity. Qed.

Theorem report_noisy_max_ratio : forall c low range u u' i, 0 <= c -> (0 <= range)%Z -> moved low range u u' ->
  noisy_max c u i <= exp (c * IZR range) * noisy_max c u' i.
Proof.
  intros c low range u u' i C R H. destruct (noisy_max_is_lub c u i) as [_ least].
  destruct (noisy_max_is_lub c u' i) as [upper _]. apply least. intros x [->|[_ [zs [N ->]]]].
  - apply Rmult_le_pos; [left; apply exp_pos|]. apply upper. left. reflexivity.
  - eapply Rle_trans; [apply (wins_with_moved c low range u u' i zs C R H)|].
    apply Rmult_le_compat_l; [left; apply exp_pos|]. apply upper. right. split; [exact C|].
    exists (map (fun z => z + range)%Z zs). split; [|reflexivity].
    apply FinFun.Injective_map_NoDup; [intros x y E; lia|exact N].
Qed.

Definition ReportNoisyMax : mechanism := Mechanism noisy_max noisy_max_nonneg report_noisy_max_ratio.
