(* How far one record moves the score of a split (data/scoring.py, docs/proofs/selection.md,
   docs/proofs/bound_query.md), all in integers, floors included; and scores of real splits over real
   rows are selections in the sense of Guarantee.v.

   A candidate sends each row to one of its children, whatever the tests behind it (two children or
   a chain of many). Reach of Gini: 2 LATTICE, as `Scoring.reach` says. *)
From Coq Require Import ZArith List Lia Arith Bool Permutation.
From Hedgerow Require Import Selection PermuteAndFlip Ledger Guarantee.
Import ListNotations.
Open Scope Z_scope.

(* a / b and c / d rounded down keep the order of the fractions. *)
Lemma floor_le : forall a b c d, 0 < b -> 0 < d -> a * d <= c * b -> a / b <= c / d.
Proof.
  intros a b c d B D H. apply Z.div_le_lower_bound; [exact D|].
  pose proof (Z.mul_div_le a b B). nia.
Qed.

(* ------------------------------------------------------------------------------------- Gini *)
(* half_gini_units: floor(unit (n^2 - sum c^2) / (2 n)), 0 of an empty child.
   n: rows, s: sum of squared class counts, k: rows of the new record's class. *)
Definition half_gini (unit n s : Z) : Z := unit * (n * n - s) / (2 * Z.max n 1).

Theorem half_gini_moves : forall unit n s k,
  0 <= unit -> 0 <= k <= n -> k * k <= s -> s <= n * n ->
  0 <= half_gini unit (n + 1) (s + 2 * k + 1) - half_gini unit n s <= unit.
Proof.
  intros unit n s k U K S N. unfold half_gini.
  destruct (Z.eq_dec n 0) as [->|P].
  - assert (k = 0) by lia. assert (s = 0) by nia. subst. simpl.
    rewrite Z.mul_0_r. simpl. lia.
  - rewrite !Z.max_l by lia.
    assert (E : (n + 1) * (n + 1) - (s + 2 * k + 1) = n * n - s + 2 * (n - k)) by ring.
    rewrite E. split.
    + apply Z.le_0_sub. apply floor_le; [lia|lia|].
      assert (0 <= (n - k) * (n - k) + (s - k * k)) by nia.
      assert ((n * n - s) * (2 * (n + 1)) <= (n * n - s + 2 * (n - k)) * (2 * n)) by nia. nia.
    + apply Z.le_sub_le_add_l. rewrite Z.add_comm.
      rewrite <- (Z.div_add (unit * (n * n - s)) unit (2 * n)) by lia.
      apply floor_le; [lia|lia|].
      assert ((n * n - s + 2 * (n - k)) * (2 * n) <= (n * n - s + 2 * n) * (2 * (n + 1))) by nia. nia.
Qed.

(* -------------------------------------------------------------------------- squared errors *)
(* floor((n sum y^2 - (sum y)^2) / (n unit)), targets in 0..unit *)
Definition squared_error (unit n q t : Z) : Z := (n * q - t * t) / (Z.max n 1 * unit).

Theorem squared_error_moves : forall unit n q t y,
  0 < unit -> 0 <= n -> 0 <= t <= n * unit -> 0 <= y <= unit -> (n = 0 -> q = 0) ->
  0 <= squared_error unit (n + 1) (q + y * y) (t + y) - squared_error unit n q t <= unit.
Proof.
  intros unit n q t y U N T Y Q. unfold squared_error.
  destruct (Z.eq_dec n 0) as [->|P].
  - assert (t = 0) by lia. rewrite (Q eq_refl). subst t.
    replace ((0 + 1) * (0 + y * y) - (0 + y) * (0 + y)) with 0 by ring.
    replace (0 * 0 - 0 * 0) with 0 by ring. rewrite !Z.div_0_l by lia. lia.
  - rewrite !Z.max_l by lia.
    set (v := n * q - t * t). set (v' := (n + 1) * (q + y * y) - (t + y) * (t + y)).
    assert (E : n * v' = (n + 1) * v + (n * y - t) * (n * y - t)) by (unfold v, v'; ring).
    assert (D : 0 <= (n * y - t) * (n * y - t) <= n * (n + 1) * (unit * unit)).
    { split; [apply Z.square_nonneg|].
      assert (A : - (n * unit) <= n * y - t <= n * unit) by nia.
      assert (B : (n * y - t) * (n * y - t) <= n * unit * (n * unit)) by nia.
      assert (C : n * unit * (n * unit) <= n * (n + 1) * (unit * unit)) by nia. lia. }
    split.
    + apply Z.le_0_sub. apply floor_le; [nia|nia|]. nia.
    + apply Z.le_sub_le_add_l. rewrite Z.add_comm.
      rewrite <- (Z.div_add v unit (n * unit)) by nia.
      apply floor_le; [nia|nia|]. nia.
Qed.

(* --------------------------------------------------------------------------------- balance *)
(* rows - 2 x rows of the largest child: a record moves it by +1 or -1 *)
Definition balance (n largest : Z) : Z := n - 2 * largest.

Theorem balance_moves : forall n largest larger, largest <= larger <= largest + 1 ->
  -1 <= balance (n + 1) larger - balance n largest <= 1.
Proof. unfold balance. intros. lia. Qed.

(* `Scoring.reach`, in units: the range over candidates of the change that one record can cause. A
   part `weight` for each record of the largest child adds its own range. Entropy: on paper. *)
Inductive score := Gini | SquaredError | Balance.
Definition reach_of (s : score) (weight unit : Z) : Z :=
  match s with Gini => 2 * unit | SquaredError => unit | Balance => 2 * unit end + weight.

(* -------------------------------------------------------------- children, candidates, minima *)
(* A record is in one child: the sum over children moves as that child does. *)
Theorem one_child_moves : forall low high before after a b,
  low <= b - a <= high ->
  low <= (fold_right Z.add 0 (before ++ b :: after)) - (fold_right Z.add 0 (before ++ a :: after)) <= high.
Proof.
  intros low high before after a b H. induction before as [|x before IH]; simpl; lia.
Qed.

(* BoundQuery: the least over candidates of what moves by amounts in [low, high] does so too. *)
Theorem minimum_moves : forall low high x y,
  Forall2 (fun a b => low <= b - a <= high) x y -> forall a b, low <= b - a <= high ->
  low <= fold_right Z.min b y - fold_right Z.min a x <= high.
Proof.
  intros low high x y H. induction H as [|c d x y E H IH]; intros a b K; simpl; [exact K|].
  specialize (IH a b K). lia.
Qed.

(* ------------------------------------------------------------------------------- over real rows *)
Section Gini.
  Variable record : Type.
  Variable counted : record -> bool.            (* is in the region *)
  Variable label : record -> nat.
  Variables classes : nat.
  Hypothesis label_lt : forall r, (label r < classes)%nat.
  Variable unit : Z.
  Hypothesis unit_nonneg : 0 <= unit.

  Definition candidate := (nat * (record -> nat))%type.   (* children, and the child of a record *)

  Definition is_in (child : record -> nat) (j k : nat) (r : record) : bool :=
    counted r && (child r =? j)%nat && (label r =? k)%nat.
  Fixpoint count (f : record -> bool) (rows : list record) : Z :=
    match rows with [] => 0 | r :: rest => (if f r then 1 else 0) + count f rest end.
  Fixpoint over (n : nat) (f : nat -> Z) : Z := match n with O => 0 | S m => over m f + f m end.

  Definition size (child : record -> nat) (j : nat) (rows : list record) : Z :=
    over classes (fun k => count (is_in child j k) rows).
  Definition square_sum (child : record -> nat) (j : nat) (rows : list record) : Z :=
    over classes (fun k => count (is_in child j k) rows * count (is_in child j k) rows).
  Definition gini (cand : candidate) (rows : list record) : Z :=
    - over (fst cand) (fun j => 2 * half_gini unit (size (snd cand) j rows) (square_sum (snd cand) j rows)).

  Lemma over_ext : forall n f g, (forall k, (k < n)%nat -> f k = g k) -> over n f = over n g.
  Proof. induction n as [|n IH]; intros f g H; simpl; [reflexivity|]. rewrite (IH f g), (H n); auto. Qed.

  (* One term changes by an amount d: so does the sum. *)
  Lemma over_one : forall n f g i, (i < n)%nat -> (forall k, k <> i -> f k = g k) ->
    over n f = over n g + (f i - g i).
  Proof.
    induction n as [|n IH]; intros f g i L H; [lia|]. simpl. destruct (Nat.eq_dec i n) as [->|N].
    - rewrite (over_ext n f g); [lia|]. intros k K. apply H. lia.
    - rewrite (IH f g i), (H n); [lia|lia|lia|exact H].
  Qed.

  Lemma over_none : forall n f g, (forall k, f k = g k) -> over n f = over n g.
  Proof. intros. apply over_ext. auto. Qed.

  Lemma count_cons : forall f r rows, count f (r :: rows) = (if f r then 1 else 0) + count f rows.
  Proof. reflexivity. Qed.

  Lemma count_nonneg : forall f rows, 0 <= count f rows.
  Proof. induction rows as [|r rows IH]; simpl; [lia|]. destruct (f r); lia. Qed.

  Lemma over_nonneg : forall n f, (forall k, 0 <= f k) -> 0 <= over n f.
  Proof. induction n as [|n IH]; intros f H; simpl; [lia|]. specialize (IH f H). specialize (H n). lia. Qed.

  Lemma over_ge : forall n f i, (forall k, 0 <= f k) -> (i < n)%nat -> f i <= over n f.
  Proof.
    induction n as [|n IH]; intros f i H L; [lia|]. simpl. destruct (Nat.eq_dec i n) as [->|N].
    - pose proof (over_nonneg n f H). lia.
    - specialize (IH f i H ltac:(lia)). specialize (H n). lia.
  Qed.

  Lemma squares_le : forall n f, (forall k, 0 <= f k) -> over n (fun k => f k * f k) <= over n f * over n f.
  Proof.
    induction n as [|n IH]; intros f H; simpl; [lia|]. specialize (IH f H).
    pose proof (over_nonneg n f H). specialize (H n). nia.
  Qed.

  Theorem gini_moves : forall cand z rows, (snd cand z < fst cand)%nat ->
    if counted z then - (2 * unit) <= gini cand (z :: rows) - gini cand rows <= 0
    else gini cand (z :: rows) = gini cand rows.
  Proof.
    intros [children child] z rows L. simpl in L. unfold gini; simpl fst; simpl snd.
    destruct (counted z) eqn:C.
    - set (j := child z) in *. set (k := label z).
      assert (K : (k < classes)%nat) by apply label_lt.
      rewrite (over_one children
        (fun j => 2 * half_gini unit (size child j (z :: rows)) (square_sum child j (z :: rows)))
        (fun j => 2 * half_gini unit (size child j rows) (square_sum child j rows)) j L).
      2:{ intros j' N. unfold size, square_sum.
          assert (Z : forall k, count (is_in child j' k) (z :: rows) = count (is_in child j' k) rows).
          { intro k'. rewrite count_cons. unfold is_in at 1. rewrite C. fold j.
            destruct (Nat.eqb_spec j j'); [congruence|]. reflexivity. }
          f_equal. f_equal; apply over_none; intro k'; rewrite Z; reflexivity. }
      set (f := fun k => count (is_in child j k) rows).
      assert (other : forall k', k' <> k -> count (is_in child j k') (z :: rows) = f k').
      { intros k' N. unfold f. rewrite count_cons. unfold is_in at 1. rewrite C. fold j k. rewrite Nat.eqb_refl.
        destruct (Nat.eqb_spec k k'); [congruence|]. reflexivity. }
      assert (own : count (is_in child j k) (z :: rows) = f k + 1).
      { unfold f. rewrite count_cons. unfold is_in at 1. rewrite C. fold j k. rewrite !Nat.eqb_refl.
        cbn [andb]. lia. }
      assert (S1 : size child j (z :: rows) = size child j rows + 1).
      { unfold size at 1. rewrite (over_one classes _ f k K) by exact other. rewrite own. unfold size. fold f. lia. }
      assert (S2 : square_sum child j (z :: rows) = square_sum child j rows + 2 * f k + 1).
      { unfold square_sum at 1. rewrite (over_one classes _ (fun k => f k * f k) k K).
        - rewrite own. unfold square_sum. fold f. unfold f. ring_simplify. reflexivity.
        - intros k' N. rewrite other by exact N. reflexivity. }
      rewrite S1, S2.
      assert (F : forall k, 0 <= f k) by (intro; apply count_nonneg).
      pose proof (half_gini_moves unit (size child j rows) (square_sum child j rows) (f k) unit_nonneg) as H.
      assert (A : 0 <= f k <= size child j rows) by (split; [apply F|apply (over_ge classes f k F K)]).
      assert (B : f k * f k <= square_sum child j rows).
      { apply (over_ge classes (fun k => f k * f k) k); [intro; specialize (F k0); nia|exact K]. }
      assert (D : square_sum child j rows <= size child j rows * size child j rows) by apply (squares_le classes f F).
      specialize (H A B D). lia.
    - f_equal. apply over_none. intro j.
      assert (Z : forall k, count (is_in child j k) (z :: rows) = count (is_in child j k) rows).
      { intro k. rewrite count_cons. unfold is_in at 1. rewrite C. reflexivity. }
      f_equal. f_equal; [unfold size|unfold square_sum]; apply over_none; intro k; rewrite Z; reflexivity.
  Qed.

  Lemma gini_permuted : forall cand x y, Permutation x y -> gini cand x = gini cand y.
  Proof.
    intros cand x y P. unfold gini. f_equal. apply over_none. intro j.
    assert (Z : forall f, count f x = count f y) by (intro f; induction P; simpl; lia).
    unfold size, square_sum. f_equal. f_equal; apply over_none; intro k; rewrite Z; reflexivity.
  Qed.
End Gini.

(* ------------------------------------------------------------------ squared error and balance *)
Section Targets.
  Variable record : Type.
  Variable counted : record -> bool.            (* is in the region *)
  Variable target : record -> Z.                (* in units *)
  Variable unit : Z.
  Hypothesis unit_pos : 0 < unit.
  Hypothesis target_in : forall r, 0 <= target r <= unit.

  Definition falls_in (child : record -> nat) (j : nat) (r : record) : bool := counted r && (child r =? j)%nat.
  Fixpoint sum_where (f : record -> bool) (y : record -> Z) (rows : list record) : Z :=
    match rows with [] => 0 | r :: rest => (if f r then y r else 0) + sum_where f y rest end.
  Definition child_size (child : record -> nat) (j : nat) : list record -> Z := sum_where (falls_in child j) (fun _ => 1).
  Definition child_sum (child : record -> nat) (j : nat) : list record -> Z := sum_where (falls_in child j) target.
  Definition child_squares (child : record -> nat) (j : nat) : list record -> Z :=
    sum_where (falls_in child j) (fun r => target r * target r).

  Definition error_score (cand : candidate record) (rows : list record) : Z :=
    - over (fst cand) (fun j => squared_error unit (child_size (snd cand) j rows) (child_squares (snd cand) j rows)
                                  (child_sum (snd cand) j rows)).
  Fixpoint largest_of (n : nat) (f : nat -> Z) : Z := match n with O => 0 | S k => Z.max (largest_of k f) (f k) end.
  Definition balance_score (cand : candidate record) (rows : list record) : Z :=
    unit * balance (over (fst cand) (fun j => child_size (snd cand) j rows))
                   (largest_of (fst cand) (fun j => child_size (snd cand) j rows)).

  Lemma sum_where_cons : forall f y r rows, sum_where f y (r :: rows) = (if f r then y r else 0) + sum_where f y rows.
  Proof. reflexivity. Qed.
  Lemma elsewhere : forall child j y z rows, falls_in child j z = false ->
    sum_where (falls_in child j) y (z :: rows) = sum_where (falls_in child j) y rows.
  Proof. intros child j y z rows F. rewrite sum_where_cons, F. lia. Qed.
  Lemma not_in_child : forall child j z, j <> child z -> falls_in child j z = false.
  Proof.
    intros child j z N. unfold falls_in. destruct (Nat.eqb_spec (child z) j); [congruence|]. apply andb_false_r.
  Qed.
  Lemma in_child : forall child z, counted z = true -> falls_in child (child z) z = true.
  Proof. intros child z C. unfold falls_in. rewrite C, Nat.eqb_refl. reflexivity. Qed.
  Lemma nobody_falls : forall child j z, counted z = false -> falls_in child j z = false.
  Proof. intros child j z C. unfold falls_in. rewrite C. reflexivity. Qed.

  Lemma child_facts : forall child j rows,
    0 <= child_size child j rows /\ 0 <= child_sum child j rows <= child_size child j rows * unit /\
    0 <= child_squares child j rows /\ (child_size child j rows = 0 -> child_squares child j rows = 0).
  Proof.
    intros child j rows. unfold child_size, child_sum, child_squares.
    induction rows as [|r rows IH]; simpl; [lia|]. pose proof (target_in r). destruct (falls_in child j r); nia.
  Qed.

  Theorem error_moves : forall cand z rows, (snd cand z < fst cand)%nat ->
    if counted z then - unit <= error_score cand (z :: rows) - error_score cand rows <= 0
    else error_score cand (z :: rows) = error_score cand rows.
  Proof.
    intros [children child] z rows L. simpl in L. unfold error_score; simpl fst; simpl snd.
    destruct (counted z) eqn:C.
    - rewrite (over_one children _
        (fun j => squared_error unit (child_size child j rows) (child_squares child j rows) (child_sum child j rows)) (child z) L).
      2:{ intros j N. unfold child_size, child_squares, child_sum. rewrite !elsewhere by (apply not_in_child, N). reflexivity. }
      destruct (child_facts child (child z) rows) as [A [B [_ D]]]. pose proof (target_in z) as Y.
      pose proof (squared_error_moves unit (child_size child (child z) rows) (child_squares child (child z) rows)
                    (child_sum child (child z) rows) (target z) unit_pos A B Y D) as M.
      assert (E : forall y, sum_where (falls_in child (child z)) y (z :: rows) = sum_where (falls_in child (child z)) y rows + y z)
        by (intro y; rewrite sum_where_cons, in_child by exact C; lia).
      unfold child_size, child_squares, child_sum in *. rewrite !E. lia.
    - f_equal. apply over_none. intro j. unfold child_size, child_squares, child_sum.
      rewrite !elsewhere by (apply nobody_falls, C). reflexivity.
  Qed.

  Lemma largest_moves : forall n f g i, (forall k, k <> i -> f k = g k) -> f i = g i + 1 ->
    largest_of n g <= largest_of n f <= largest_of n g + 1.
  Proof.
    induction n as [|n IH]; intros f g i H E; simpl; [lia|]. specialize (IH f g i H E).
    destruct (Nat.eq_dec n i) as [->|N]; [lia|]. rewrite (H n N). lia.
  Qed.
  Lemma largest_ext : forall n f g, (forall k, f k = g k) -> largest_of n f = largest_of n g.
  Proof. induction n as [|n IH]; intros f g H; simpl; [reflexivity|]. rewrite (IH f g H), H. reflexivity. Qed.

  Theorem balance_score_moves : forall cand z rows, (snd cand z < fst cand)%nat ->
    if counted z then - unit <= balance_score cand (z :: rows) - balance_score cand rows <= unit
    else balance_score cand (z :: rows) = balance_score cand rows.
  Proof.
    intros [children child] z rows L. simpl in L. unfold balance_score; simpl fst; simpl snd.
    destruct (counted z) eqn:C.
    - assert (other : forall j, j <> child z -> child_size child j (z :: rows) = child_size child j rows)
        by (intros j N; apply elsewhere, not_in_child, N).
      assert (own : child_size child (child z) (z :: rows) = child_size child (child z) rows + 1)
        by (unfold child_size; rewrite sum_where_cons, in_child by exact C; lia).
      rewrite (over_one children _ (fun j => child_size child j rows) (child z) L other), own.
      pose proof (largest_moves children _ (fun j => child_size child j rows) (child z) other own) as M.
      pose proof (balance_moves (over children (fun j => child_size child j rows)) _ _ M) as B.
      replace (child_size child (child z) rows + 1 - child_size child (child z) rows) with 1 by ring.
      set (x := balance _ _) in *. set (y := balance _ _) in *. nia.
    - assert (same : forall j, child_size child j (z :: rows) = child_size child j rows)
        by (intro j; apply elsewhere, nobody_falls, C).
      rewrite (over_none children _ _ same), (largest_ext children _ _ same). reflexivity.
  Qed.

  Lemma sum_where_permuted : forall f y a b, Permutation a b -> sum_where f y a = sum_where f y b.
  Proof. intros f y a b P. induction P; simpl; lia. Qed.
  Lemma error_permuted : forall cand x y, Permutation x y -> error_score cand x = error_score cand y.
  Proof.
    intros cand x y P. unfold error_score. f_equal. apply over_none. intro j. unfold child_size, child_squares, child_sum.
    rewrite !(sum_where_permuted _ _ x y P). reflexivity.
  Qed.
  Lemma balance_permuted : forall cand x y, Permutation x y -> balance_score cand x = balance_score cand y.
  Proof.
    intros cand x y P. unfold balance_score. f_equal. f_equal; [apply over_none|apply largest_ext]; intro j;
      apply sum_where_permuted, P.
  Qed.
End Targets.

(* ---------------------------------------------------------------------------- selecting a split *)
(* A selection among any candidates, by a score that one record of the region moves within [low, low +
   reach] and one outside it not at all, is a query of Guarantee.v; with any mechanism. *)
Section Question.
  Variables record test outcome : Type.
  Variable outcome_eq : forall a b : outcome, {a = b} + {a <> b}.
  Variable outcome_of : record -> test -> outcome.
  Variable candidates : list (candidate record).
  Hypothesis children : Forall (fun cand => forall r, (snd cand r < fst cand)%nat) candidates.
  Variables (where_ : region test outcome) (cost : Z) (chosen_by : mechanism).
  Hypothesis cost_pos : 0 < cost.
  Let counted := fun r => inside test outcome outcome_eq record outcome_of r where_.

  Section Score.
    Variable score : candidate record -> list record -> Z.
    Variables low reach : Z.
    Hypothesis reach_pos : 0 < reach.
    Hypothesis permuted : forall cand x y, Permutation x y -> score cand x = score cand y.
    Hypothesis moves : forall cand z rows, (snd cand z < fst cand)%nat ->
      if counted z then low <= score cand (z :: rows) - score cand rows <= low + reach
      else score cand (z :: rows) = score cand rows.
    Let all_scores (rows : list record) : list Z := map (fun cand => score cand rows) candidates.

    Lemma all_scores_permuted : forall x y, Permutation x y -> all_scores x = all_scores y.
    Proof. intros x y P. apply map_ext. intro cand. apply permuted, P. Qed.

    Lemma all_scores_move : forall z rows,
      if inside test outcome outcome_eq record outcome_of z where_
      then exists low, moved low reach (all_scores rows) (all_scores (z :: rows))
      else all_scores (z :: rows) = all_scores rows.
    Proof.
      intros z rows. fold (counted z). unfold all_scores.
      assert (G : forall cand, (forall r, (snd cand r < fst cand)%nat) -> _) by
        (intros cand H; exact (moves cand z rows (H z))).
      destruct (counted z).
      - exists low. unfold moved. clear all_scores.
        induction children as [|cand rest H K IH]; cbn [map]; [constructor|].
        constructor; [|exact (IH K)]. exact (G cand H).
      - clear all_scores. induction children as [|cand rest H K IH]; cbn [map]; [reflexivity|].
        rewrite (G cand H), (IH K). reflexivity.
    Qed.

    Definition ScoreSelection : selection_query record test outcome outcome_eq outcome_of :=
      SelectionQuery record test outcome outcome_eq outcome_of where_ cost all_scores reach chosen_by
        cost_pos reach_pos all_scores_permuted all_scores_move.
  End Score.

  Variable unit : Z.
  Hypothesis unit_pos : 0 < unit.
  Variable label : record -> nat.
  Variable classes : nat.
  Hypothesis label_lt : forall r, (label r < classes)%nat.
  Variable target : record -> Z.
  Hypothesis target_in : forall r, 0 <= target r <= unit.

  Lemma gini_within : forall cand z rows, (snd cand z < fst cand)%nat ->
    if counted z then - (2 * unit) <= gini record counted label classes unit cand (z :: rows)
                      - gini record counted label classes unit cand rows <= - (2 * unit) + reach_of Gini 0 unit
    else gini record counted label classes unit cand (z :: rows) = gini record counted label classes unit cand rows.
  Proof.
    intros cand z rows H. pose proof (gini_moves record counted label classes label_lt unit ltac:(lia) cand z rows H) as M.
    destruct (counted z); [unfold reach_of; lia|exact M].
  Qed.
  Lemma error_within : forall cand z rows, (snd cand z < fst cand)%nat ->
    if counted z then - unit <= error_score record counted target unit cand (z :: rows)
                      - error_score record counted target unit cand rows <= - unit + reach_of SquaredError 0 unit
    else error_score record counted target unit cand (z :: rows) = error_score record counted target unit cand rows.
  Proof.
    intros cand z rows H. pose proof (error_moves record counted target unit unit_pos target_in cand z rows H) as M.
    destruct (counted z); [unfold reach_of; lia|exact M].
  Qed.
  Lemma balance_within : forall cand z rows, (snd cand z < fst cand)%nat ->
    if counted z then - unit <= balance_score record counted unit cand (z :: rows)
                      - balance_score record counted unit cand rows <= - unit + reach_of Balance 0 unit
    else balance_score record counted unit cand (z :: rows) = balance_score record counted unit cand rows.
  Proof.
    intros cand z rows H. pose proof (balance_score_moves record counted unit unit_pos cand z rows H) as M.
    destruct (counted z); [unfold reach_of; lia|exact M].
  Qed.

  Definition GiniSelection := ScoreSelection (gini record counted label classes unit) (- (2 * unit)) (reach_of Gini 0 unit)
    ltac:(unfold reach_of; lia) (gini_permuted record counted label classes unit) gini_within.
  Definition SquaredErrorSelection := ScoreSelection (error_score record counted target unit) (- unit)
    (reach_of SquaredError 0 unit) ltac:(unfold reach_of; lia) (error_permuted record counted target unit) error_within.
  Definition BalanceSelection := ScoreSelection (balance_score record counted unit) (- unit) (reach_of Balance 0 unit)
    ltac:(unfold reach_of; lia) (balance_permuted record counted unit) balance_within.
End Question.
