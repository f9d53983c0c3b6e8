(* Pairwise masks modulo M = 2^64: secagg/masks.py, secagg/membership.py, secagg/opening.py.

   What is proved is about ideal masks (independent, uniform); that AES in counter mode under
   agreed keys gives such masks is cryptography and stays an assumption. *)
From Coq Require Import ZArith List Lia Arith.
Import ListNotations.
Open Scope Z_scope.

Fixpoint sum_over (sites : list nat) (f : nat -> Z) : Z :=
  match sites with [] => 0 | i :: rest => f i + sum_over rest f end.

Lemma sum_app : forall x y f, sum_over (x ++ y) f = sum_over x f + sum_over y f.
Proof. induction x as [|i x IH]; intros y f; simpl; [reflexivity|rewrite IH; lia]. Qed.
Lemma sum_plus : forall x f g, sum_over x (fun i => f i + g i) = sum_over x f + sum_over x g.
Proof. induction x as [|i x IH]; intros f g; simpl; [reflexivity|rewrite IH; lia]. Qed.
Lemma sum_opp : forall x f, sum_over x (fun i => - f i) = - sum_over x f.
Proof. induction x as [|i x IH]; intros f; simpl; [reflexivity|rewrite IH; lia]. Qed.
Lemma sum_ext : forall x f g, (forall i, In i x -> f i = g i) -> sum_over x f = sum_over x g.
Proof. induction x as [|i x IH]; intros f g H; simpl; [reflexivity|]. rewrite (H i (or_introl eq_refl)), (IH f g); [reflexivity|]. intros j J. apply H. right. exact J. Qed.
Lemma sum_zero : forall x f, (forall i, In i x -> f i = 0) -> sum_over x f = 0.
Proof. intros x f H. rewrite (sum_ext x f (fun _ => 0) H). clear. induction x; simpl; lia. Qed.
Lemma sum_swap : forall x y (f : nat -> nat -> Z),
  sum_over x (fun i => sum_over y (f i)) = sum_over y (fun j => sum_over x (fun i => f i j)).
Proof.
  intros x y f. induction x as [|i x IH]; simpl.
  - symmetry. apply sum_zero. reflexivity.
  - rewrite IH, <- sum_plus. reflexivity.
Qed.

(* The pair (i, j), i < j, shares p i j; i adds it and j takes it away. *)
Definition signed_mask (p : nat -> nat -> Z) (i j : nat) : Z :=
  match (i ?= j)%nat with Lt => p i j | Gt => - p j i | Eq => 0 end.

Lemma signed_mask_opp : forall p i j, signed_mask p i j = - signed_mask p j i.
Proof.
  intros p i j. unfold signed_mask. rewrite (Nat.compare_antisym i j).
  destruct (Nat.compare_spec i j); simpl; lia.
Qed.

Lemma signed_plus : forall p d i j,
  signed_mask (fun a b => p a b + d a b) i j = signed_mask p i j + signed_mask d i j.
Proof. intros p d i j. unfold signed_mask. destruct (i ?= j)%nat; lia. Qed.

Theorem pair_masks_cancel : forall sites p,
  sum_over sites (fun i => sum_over sites (signed_mask p i)) = 0.
Proof.
  intros sites p.
  assert (E : sum_over sites (fun j => sum_over sites (fun i => signed_mask p i j)) =
              - sum_over sites (fun j => sum_over sites (signed_mask p j))).
  { rewrite <- sum_opp. apply sum_ext. intros j _. rewrite <- sum_opp. apply sum_ext. intros i _. apply signed_mask_opp. }
  rewrite <- sum_swap in E. lia.
Qed.

Section Round.
  Variable M : Z.
  Hypothesis M_pos : 0 < M.

  (* MASKED: the vector, a self-mask, and a pair mask with every participant. *)
  Definition masked (x b : nat -> Z) (p : nat -> nat -> Z) (participants : list nat) (i : nat) : Z :=
    (x i + b i + sum_over participants (signed_mask p i)) mod M.

  Lemma sum_mod : forall sites f, (sum_over sites (fun i => f i mod M)) mod M = (sum_over sites f) mod M.
  Proof.
    intros sites f. induction sites as [|i rest IH]; simpl; [reflexivity|].
    rewrite Zplus_mod, IH, Zmod_mod, <- Zplus_mod. reflexivity.
  Qed.

  (* Self-masks of the members and pair masks towards the lost come off; the rest cancels. *)
  Theorem opened_is_the_sum : forall x b p members lost,
    (sum_over members (masked x b p (members ++ lost))
     - sum_over members b
     - sum_over members (fun i => sum_over lost (signed_mask p i))) mod M
    = (sum_over members x) mod M.
  Proof.
    intros x b p members lost.
    rewrite <- Z.sub_add_distr, Zminus_mod. unfold masked at 1. rewrite sum_mod, <- Zminus_mod.
    f_equal. rewrite !sum_plus.
    replace (sum_over members (fun i => sum_over (members ++ lost) (signed_mask p i)))
      with (sum_over members (fun i => sum_over members (signed_mask p i))
            + sum_over members (fun i => sum_over lost (signed_mask p i))).
    - rewrite pair_masks_cancel. lia.
    - rewrite <- sum_plus. apply sum_ext. intros i _. symmetry. apply sum_app.
  Qed.

  (* Rounds in one exchange: pair masks alone, and nobody is lost. *)
  Theorem at_once_is_the_sum : forall x p members,
    (sum_over members (masked x (fun _ => 0) p members)) mod M = (sum_over members x) mod M.
  Proof.
    intros x p members. pose proof (opened_is_the_sum x (fun _ => 0) p members []) as H.
    rewrite app_nil_r in H. rewrite <- H. f_equal.
    assert (Z0 : forall sites, sum_over sites (fun _ => 0) = 0) by (induction sites as [|i sites IH]; simpl; lia).
    assert (Z1 : forall sites, sum_over sites (fun i => sum_over [] (signed_mask p i)) = 0)
      by (induction sites as [|i sites IH]; simpl in *; lia).
    rewrite Z0, Z1. lia.
  Qed.

  (* centred(): a sum of either sign comes out as it went in, while it fits. *)
  Definition centred (a : Z) : Z := if a mod M <? M / 2 then a mod M else a mod M - M.
  Theorem centred_exact : forall a, M mod 2 = 0 -> - (M / 2) <= a < M / 2 -> centred a = a.
  Proof.
    intros a even H. unfold centred.
    assert (D : M = 2 * (M / 2)) by (pose proof (Z.div_mod M 2 ltac:(lia)); lia).
    set (h := M / 2) in *.
    destruct (Z_lt_le_dec a 0) as [neg|pos].
    - replace (a mod M) with (a + M); [destruct (Z.ltb_spec (a + M) h); lia|].
      apply Zmod_unique with (-1); lia.
    - rewrite Z.mod_small by lia. destruct (Z.ltb_spec a h); lia.
  Qed.

  (* ---------------------------------------------------------------------------- what hides *)
  (* One unknown mask is enough for one vector: for every value that could be seen there is
     exactly one residue of the mask that shows it. *)
  Theorem one_unknown_mask : forall c v, 0 <= v < M ->
    exists k, (0 <= k < M /\ (c + k) mod M = v) /\ forall k', 0 <= k' < M /\ (c + k') mod M = v -> k' = k.
  Proof.
    intros c v V. exists ((v - c) mod M). split.
    - split; [apply Z.mod_pos_bound, M_pos|].
      rewrite Zplus_mod_idemp_r. replace (c + (v - c)) with v by lia. apply Z.mod_small, V.
    - intros k' [K E]. rewrite <- E, Zminus_mod_idemp_l. replace (c + k' - c) with k' by lia.
      symmetry. apply Z.mod_small, K.
  Qed.

  (* Honest members h0 :: rest, everybody else in `others`. If x and y have the same honest sum,
     then shifting the masks inside the honest set by fixed amounts turns every view of x into
     the same view of y. A shift of uniform masks is uniform: the coalition, which knows all other
     masks and takes off all self-masks, sees the sum of the honest and nothing else. *)
  Theorem only_the_sum_is_seen : forall h0 rest others x y,
    NoDup (h0 :: rest) -> (forall i, In i others -> ~ In i (h0 :: rest)) ->
    (sum_over (h0 :: rest) x) mod M = (sum_over (h0 :: rest) y) mod M ->
    exists shift : nat -> nat -> Z,
      (forall i j, shift i j <> 0 -> In i (h0 :: rest) /\ In j (h0 :: rest)) /\
      forall b p i, In i (h0 :: rest) ->
        masked x b p ((h0 :: rest) ++ others) i =
        masked y b (fun i j => p i j + shift i j) ((h0 :: rest) ++ others) i.
  Proof.
    intros h0 rest others x y ND apart same. inversion ND as [|? ? out ND']; subst.
    set (d := fun i => x i - y i).
    set (shift := fun i j =>
      if (i =? h0)%nat then if in_dec Nat.eq_dec j rest then - d j else 0
      else if (j =? h0)%nat then if in_dec Nat.eq_dec i rest then d i else 0 else 0).
    assert (S : forall i j, signed_mask shift i j =
      if (i =? h0)%nat then if in_dec Nat.eq_dec j rest then - d j else 0
      else if (j =? h0)%nat then if in_dec Nat.eq_dec i rest then d i else 0 else 0).
    { intros i j. unfold signed_mask, shift.
      destruct (Nat.compare_spec i j) as [E|E|E]; destruct (Nat.eqb_spec i h0), (Nat.eqb_spec j h0); subst;
        repeat match goal with |- context [in_dec ?a ?b ?c] => destruct (in_dec a b c) end;
        try contradiction; try lia; try reflexivity. }
    exists shift. split.
    - intros i j. unfold shift. destruct (Nat.eqb_spec i h0), (Nat.eqb_spec j h0); subst;
        repeat match goal with |- context [in_dec ?a ?b ?c] => destruct (in_dec a b c) end;
        intro N; try congruence; split; simpl; tauto.
    - intros b p i I. unfold masked.
      replace (sum_over ((h0 :: rest) ++ others) (signed_mask (fun i j => p i j + shift i j) i))
        with (sum_over ((h0 :: rest) ++ others) (signed_mask p i) + sum_over ((h0 :: rest) ++ others) (signed_mask shift i)).
      2:{ rewrite <- sum_plus. apply sum_ext. intros j _. symmetry. apply signed_plus. }
      set (known := sum_over ((h0 :: rest) ++ others) (signed_mask p i)).
      assert (F : sum_over others (signed_mask shift i) = 0).
      { apply sum_zero. intros j J. rewrite S. specialize (apart j J). simpl in apart.
        destruct (Nat.eqb_spec i h0); [destruct (in_dec Nat.eq_dec j rest); [tauto|reflexivity]|].
        destruct (Nat.eqb_spec j h0); [subst; tauto|reflexivity]. }
      rewrite sum_app, F. destruct I as [<-|I].
      + replace (sum_over (h0 :: rest) (signed_mask shift h0)) with (- sum_over rest d).
        2:{ simpl sum_over. rewrite S, Nat.eqb_refl. destruct (in_dec Nat.eq_dec h0 rest); [contradiction|].
            rewrite <- sum_opp. simpl. apply sum_ext. intros j J. rewrite S, Nat.eqb_refl.
            destruct (in_dec Nat.eq_dec j rest); [reflexivity|contradiction]. }
        assert (T : sum_over rest d = sum_over rest x - sum_over rest y).
        { unfold d. rewrite <- Z.add_opp_r, <- sum_opp, <- sum_plus. apply sum_ext. intros. lia. }
        rewrite T. simpl in same.
        replace (x h0 + b h0 + known) with (x h0 + sum_over rest x + (b h0 + known - sum_over rest x)) by lia.
        rewrite Zplus_mod, same, <- Zplus_mod. f_equal. lia.
      + assert (i <> h0) by (intro; subst; contradiction).
        f_equal. replace (sum_over (h0 :: rest) (signed_mask shift i)) with (d i); [unfold d; lia|].
        simpl sum_over. rewrite S. destruct (Nat.eqb_spec i h0); [contradiction|]. rewrite Nat.eqb_refl.
        destruct (in_dec Nat.eq_dec i rest); [|contradiction].
        rewrite sum_zero; [lia|]. intros j J. rewrite S. destruct (Nat.eqb_spec i h0); [contradiction|].
        destruct (Nat.eqb_spec j h0); [subst; contradiction|reflexivity].
  Qed.
End Round.
