(* How far one record moves the score of a split: privacy/queries/choices.py, data/scoring.py,
   docs/proofs/selection.md, docs/proofs/bound_query.md. All in integers, floors included. *)
From Coq Require Import ZArith List Lia Arith.
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
