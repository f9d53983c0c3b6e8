(* How far one record moves a sum over groups of cells: privacy/queries, kernels/units.py,
   models/losses.py.

   A record is anything. What it adds (`contribution`) and the cell of each group it falls in
   (`cell`) are arbitrary functions of the record alone: floats, models and trees are inside
   them, and nothing is assumed of them. The clamp makes the declared bound true. *)
From Coq Require Import ZArith List Lia Arith Bool.
From Hedgerow Require Import Sums.
Import ListNotations.
Open Scope Z_scope.

Record sensitivity := Sens { l1 : Z; l2_squared : Z; linf : Z }.

(* models/losses.py *)
Definition repeated (s : sensitivity) (groups : nat) : sensitivity :=
  Sens (l1 s * Z.of_nat groups) (l2_squared s * Z.of_nat groups) (linf s).
Definition of_person (s : sensitivity) (m : Z) : sensitivity :=
  Sens (l1 s * m) (l2_squared s * (m * m)) (linf s * m).

Definition within (s : sensitivity) (x : vector) : Prop :=
  L1 x <= l1 s /\ L2sq x <= l2_squared s /\ Linf x <= linf s.
Definition fits (s : sensitivity) (x : vector) : bool :=
  (L1 x <=? l1 s) && (L2sq x <=? l2_squared s) && (Linf x <=? linf s).

Definition positive (s : sensitivity) : Prop := 1 <= l1 s /\ 1 <= l2_squared s /\ 1 <= linf s.

(* kernels/units.py: a record whose integers exceed the bound adds nothing. *)
Definition clamped (s : sensitivity) (x : vector) : vector :=
  if fits s x then x else zeros (length x).

Lemma clamped_length : forall s x, length (clamped s x) = length x.
Proof. intros s x. unfold clamped. destruct (fits s x); [reflexivity|apply zeros_length]. Qed.

Theorem clamped_within : forall s x, positive s -> within s (clamped s x).
Proof.
  intros s x [p1 [p2 p3]]. unfold clamped, within. destruct (fits s x) eqn:E.
  - unfold fits in E. rewrite !andb_true_iff, !Z.leb_le in E. tauto.
  - unfold L1, L2sq. rewrite !norm_zeros, Linf_zeros by reflexivity. lia.
Qed.

(* ------------------------------------------------------------------ one group, all groups *)
(* `place cells c v`: v in cell c of `cells` cells, zeros elsewhere. *)
Fixpoint in_cell (cells : nat) (c : nat) (v : vector) : vector :=
  match cells with
  | O => []
  | S rest => match c with
              | O => v ++ zeros (rest * length v)
              | S c' => zeros (length v) ++ in_cell rest c' v
              end
  end.

Lemma in_cell_length : forall cells c v, length (in_cell cells c v) = (cells * length v)%nat.
Proof.
  induction cells as [|cells IH]; intros c v; [reflexivity|].
  destruct c; simpl; rewrite app_length, zeros_length; [|rewrite IH]; lia.
Qed.

Lemma norm_in_cell : forall w cells c v, w 0 = 0 -> (c < cells)%nat ->
  norm w (in_cell cells c v) = norm w v.
Proof.
  induction cells as [|cells IH]; intros c v w0 lt; [lia|].
  destruct c; simpl; rewrite norm_app, norm_zeros by exact w0; [lia|].
  rewrite IH by (auto; lia). lia.
Qed.

Lemma Linf_in_cell : forall cells c v, (c < cells)%nat -> Linf (in_cell cells c v) = Linf v.
Proof.
  induction cells as [|cells IH]; intros c v lt; [lia|].
  pose proof (Linf_nonneg v).
  destruct c; simpl; rewrite Linf_app, Linf_zeros; [lia|].
  rewrite IH by lia. lia.
Qed.

Section Query.
  Variable record : Type.
  Variables groups cells channels : nat.
  Variable cell : nat -> record -> nat.             (* of a group: the record's cell in it *)
  Variable contribution : record -> vector.         (* any integers at all *)
  Variable bound : sensitivity.
  Variable in_region : record -> bool.

  Hypothesis cell_lt : forall g r, (cell g r < cells)%nat.
  Hypothesis contribution_length : forall r, length (contribution r) = channels.
  Hypothesis bound_positive : positive bound.

  Definition clamped_part (r : record) : vector := clamped bound (contribution r).

  Fixpoint over_groups (g : nat) (r : record) : vector :=
    match g with O => [] | S g' => over_groups g' r ++ in_cell cells (cell g' r) (clamped_part r) end.

  (* What one record adds to the flat answer of groups x cells x channels integers. *)
  Definition record_part (r : record) : vector :=
    if in_region r then over_groups groups r else zeros (groups * (cells * channels)).

  Definition answer (rows : list record) : vector :=
    fold_right (fun r total => vadd (record_part r) total) (zeros (groups * (cells * channels))) rows.

  Lemma clamped_part_length : forall r, length (clamped_part r) = channels.
  Proof. intro r. unfold clamped_part. rewrite clamped_length. apply contribution_length. Qed.

  Lemma over_groups_length : forall g r, length (over_groups g r) = (g * (cells * channels))%nat.
  Proof.
    induction g as [|g IH]; intro r; [reflexivity|].
    simpl. rewrite app_length, IH, in_cell_length, clamped_part_length. lia.
  Qed.

  Lemma record_part_length : forall r, length (record_part r) = (groups * (cells * channels))%nat.
  Proof. intro r. unfold record_part. destruct (in_region r); [apply over_groups_length|apply zeros_length]. Qed.

  Lemma answer_length : forall rows, length (answer rows) = (groups * (cells * channels))%nat.
  Proof.
    induction rows as [|r rows IH]; simpl; [apply zeros_length|].
    rewrite vadd_length; rewrite record_part_length; [reflexivity|]. symmetry. exact IH.
  Qed.

  Lemma norm_over_groups : forall w g r, w 0 = 0 -> norm w (over_groups g r) = norm w (clamped_part r) * Z.of_nat g.
  Proof.
    induction g as [|g IH]; intros r w0.
    - unfold norm. simpl. lia.
    - change (over_groups (S g) r) with (over_groups g r ++ in_cell cells (cell g r) (clamped_part r)).
      rewrite norm_app, IH, norm_in_cell by auto. lia.
  Qed.

  Lemma Linf_over_groups : forall g r, Linf (over_groups g r) <= Linf (clamped_part r).
  Proof.
    induction g as [|g IH]; intro r.
    - simpl. apply Linf_nonneg.
    - change (over_groups (S g) r) with (over_groups g r ++ in_cell cells (cell g r) (clamped_part r)).
      rewrite Linf_app, Linf_in_cell by apply cell_lt. specialize (IH r). lia.
  Qed.

  (* The bound that the noise is made for: `SumQuery.sensitivity`. *)
  Theorem one_record : forall r, within (repeated bound groups) (record_part r).
  Proof.
    intro r. destruct (clamped_within bound (contribution r) bound_positive) as [a [b c]].
    fold (clamped_part r) in a, b, c. unfold within, repeated, record_part. simpl.
    destruct bound_positive as [p1 [p2 p3]].
    destruct (in_region r).
    - unfold L1, L2sq in *. rewrite !norm_over_groups by reflexivity.
      pose proof (Linf_over_groups groups r). nia.
    - unfold L1, L2sq. rewrite !norm_zeros, Linf_zeros by reflexivity. nia.
  Qed.

  (* It is reached, whatever the grouping: groups are not parallel. *)
  Theorem one_record_exact : forall r, in_region r = true -> fits bound (contribution r) = true ->
    L1 (contribution r) = l1 bound -> L1 (record_part r) = l1 (repeated bound groups).
  Proof.
    intros r inside kept reached. unfold record_part. rewrite inside.
    unfold L1 in *. rewrite norm_over_groups by reflexivity. unfold clamped_part, clamped. rewrite kept, reached.
    reflexivity.
  Qed.

  (* -------------------------------------------------------------- neighbours: add or remove *)
  Theorem added : forall before after z,
    answer (before ++ z :: after) = vadd (record_part z) (answer (before ++ after)).
  Proof.
    induction before as [|r before IH]; intros after z; simpl; [reflexivity|].
    rewrite IH, !vadd_assoc. f_equal. apply vadd_comm.
  Qed.

  Theorem add_or_remove : forall before after z,
    within (repeated bound groups) (vsub (answer (before ++ z :: after)) (answer (before ++ after))).
  Proof.
    intros before after z. rewrite added, vsub_vadd; [apply one_record|].
    rewrite record_part_length, answer_length. reflexivity.
  Qed.

  Theorem outside : forall before after z, in_region z = false ->
    answer (before ++ z :: after) = answer (before ++ after).
  Proof.
    intros before after z out. rewrite added. unfold record_part. rewrite out, vadd_comm.
    rewrite <- (answer_length (before ++ after)). apply vadd_zeros.
  Qed.

  (* ------------------------------------------------------------------- neighbours: replace *)
  Lemma vsub_common : forall x y c, length x = length c -> length y = length c ->
    vsub (vadd x c) (vadd y c) = vsub x y.
  Proof.
    induction x as [|a x IH]; intros [|b y] [|d c] E F; simpl in *; try discriminate E; try discriminate F; [reflexivity|].
    f_equal; [lia|apply IH; lia].
  Qed.

  Theorem replaced : forall before after y z,
    let change := vsub (answer (before ++ z :: after)) (answer (before ++ y :: after)) in
    L1 change <= 2 * l1 (repeated bound groups) /\
    L2sq change <= 4 * l2_squared (repeated bound groups).
  Proof.
    intros before after y z change. unfold change.
    rewrite !added, vsub_common by (rewrite record_part_length, answer_length; reflexivity).
    destruct (one_record y) as [a [b _]], (one_record z) as [c [d _]].
    assert (E : length (record_part z) = length (record_part y)) by (rewrite !record_part_length; reflexivity).
    pose proof (L1_vsub _ _ E). pose proof (L2sq_vsub _ _ E). lia.
  Qed.

  (* ------------------------------------------------------ neighbours: a person's m records *)
  Fixpoint person_part (person : list record) : vector :=
    match person with
    | [] => zeros (groups * (cells * channels))
    | r :: rest => vadd (record_part r) (person_part rest)
    end.

  Lemma person_part_length : forall person, length (person_part person) = (groups * (cells * channels))%nat.
  Proof.
    induction person as [|r rest IH]; simpl; [apply zeros_length|].
    rewrite vadd_length; rewrite record_part_length; congruence.
  Qed.

  Lemma answer_of_person : forall person rows,
    answer (person ++ rows) = vadd (person_part person) (answer rows).
  Proof.
    induction person as [|r rest IH]; intro rows; simpl.
    - rewrite vadd_comm, <- (answer_length rows). symmetry. apply vadd_zeros.
    - rewrite IH. apply vadd_assoc.
  Qed.

  Theorem one_person : forall person, person <> [] ->
    within (of_person (repeated bound groups) (Z.of_nat (length person))) (person_part person).
  Proof.
    induction person as [|r rest IH]; [congruence|]. intros _.
    destruct (one_record r) as [a [b c]].
    destruct rest as [|r' rest].
    - simpl person_part. unfold within, of_person in *. simpl in *.
      rewrite vadd_comm.
      replace (vadd (zeros (groups * (cells * channels))) (record_part r)) with (record_part r); [lia|].
      rewrite vadd_comm, <- (record_part_length r). symmetry. apply vadd_zeros.
    - specialize (IH ltac:(congruence)). destruct IH as [d [e f]].
      set (p := r' :: rest) in *. change (person_part (r :: p)) with (vadd (record_part r) (person_part p)).
      assert (E : length (record_part r) = length (person_part p)) by (rewrite record_part_length, person_part_length; reflexivity).
      set (m := Z.of_nat (length p)) in *.
      assert (M : 0 < m) by (unfold m, p; simpl; lia).
      replace (Z.of_nat (length (r :: p))) with (m + 1) by (unfold m; simpl; lia).
      pose proof (L1_vadd _ _ E). pose proof (L2sq_vadd_weighted m _ _ E M). pose proof (Linf_vadd _ _ E).
      unfold within, of_person in *. cbn [l1 l2_squared linf] in *.
      set (s1 := l1 (repeated bound groups)) in *. set (s2 := l2_squared (repeated bound groups)) in *.
      set (s3 := linf (repeated bound groups)) in *.
      repeat split; [lia| |lia].
      apply (Zmult_le_reg_r _ _ m); [lia|].
      assert (m * (m + 1) * L2sq (record_part r) <= m * (m + 1) * s2) by (apply Z.mul_le_mono_nonneg_l; nia).
      assert ((m + 1) * L2sq (person_part p) <= (m + 1) * (s2 * (m * m))) by (apply Z.mul_le_mono_nonneg_l; lia).
      replace (s2 * ((m + 1) * (m + 1)) * m) with (m * (m + 1) * s2 + (m + 1) * (s2 * (m * m))) by ring.
      lia.
  Qed.

  Theorem add_or_remove_person : forall person rows, person <> [] ->
    within (of_person (repeated bound groups) (Z.of_nat (length person))) (vsub (answer (person ++ rows)) (answer rows)).
  Proof.
    intros. rewrite answer_of_person, vsub_vadd by
      (try assumption; rewrite person_part_length, answer_length by assumption; reflexivity).
    apply one_person; assumption.
  Qed.
End Query.
