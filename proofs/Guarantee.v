(* The whole guarantee for pure epsilon: noisy sums and private selections, asked adaptively, under
   the region ledger, for one person with up to m records.

   Everything that is not privacy is a variable: which records there are, what they hold, how a
   learner chooses its next question. What is proved is what a site does: clamp, sum, noise of
   the rate that the study derives, and a ledger that says no. *)
From Coq Require Import Reals ZArith List Lia Lra Arith Bool Permutation.
From Hedgerow Require Import Sums Sensitivity Laplace Selection Ledger.
Import ListNotations.
Open Scope Z_scope.

Section Guarantee.
  Variables record test outcome : Type.
  Variable test_eq : forall a b : test, {a = b} + {a <> b}.
  Variable outcome_eq : forall a b : outcome, {a = b} + {a <> b}.
  Variable outcome_of : record -> test -> outcome.

  (* privacy/queries/kinds.py: SumQuery, with its cost in units of the budget *)
  Record sum_query := SumQuery {
    region_of : region test outcome;
    cost : Z;
    groups : nat; cells : nat; channels : nat;
    cell : nat -> record -> nat;
    contribution : record -> vector;
    bound : sensitivity;
    cost_pos : 0 < cost;
    groups_pos : (0 < groups)%nat;
    cell_lt : forall g r, (cell g r < cells)%nat;
    contribution_length : forall r, length (contribution r) = channels;
    bound_positive : positive bound;
  }.

  (* privacy/queries/choices.py: SelectQuery. Scores are any integers that one record of the region moves
     by amounts within a range of `reach`, and one outside it not at all. *)
  Record selection_query := SelectionQuery {
    selection_region : region test outcome;
    selection_cost : Z;
    scores : list record -> list Z;
    reach : Z;
    mechanism_of : mechanism;
    selection_cost_pos : 0 < selection_cost;
    reach_pos : 0 < reach;
    scores_permuted : forall x y, Permutation x y -> scores x = scores y;
    scores_move : forall z rows,
      if inside test outcome outcome_eq record outcome_of z selection_region
      then exists low, moved low reach (scores rows) (scores (z :: rows))
      else scores (z :: rows) = scores rows;
  }.

  Inductive question := Sum (q : sum_query) | Select (q : selection_query).
  Inductive reply := Numbers (x : vector) | SelectedIndex (i : nat).

  Definition inside_region (q : sum_query) (r : record) : bool :=
    inside test outcome outcome_eq record outcome_of r (region_of q).
  Definition exact (q : sum_query) (rows : list record) : vector :=
    answer record (groups q) (cells q) (channels q) (cell q) (contribution q) (bound q)
           (inside_region q) rows.
  Definition part_of (q : sum_query) (r : record) : vector :=
    record_part record (groups q) (cells q) (channels q) (cell q) (contribution q) (bound q) (inside_region q) r.

  Variable unit : R.                    (* epsilon of one unit of cost *)
  Variable budget : Z.
  Variable m : Z.                       (* records_per_person *)
  Hypothesis unit_pos : (0 < unit)%R.
  Hypothesis budget_nonneg : 0 <= budget.
  Hypothesis m_pos : 0 < m.

  (* privacy/accounting/conversions.py, noise_law: DiscreteLaplace(cost / sensitivity.l1) *)
  Definition rate (q : sum_query) : R :=
    (unit * IZR (cost q) / IZR (l1 (of_person (repeated (bound q) (groups q)) m)))%R.
  (* docs/proofs/samplers.md, section 7: epsilon / range *)
  Definition coefficient (q : selection_query) : R := (unit * IZR (selection_cost q) / IZR (reach q * m))%R.

  Definition law (q : question) (rows : list record) (y : reply) : R :=
    match q, y with
    | Sum q, Numbers x => release (rate q) (exact q rows) x
    | Select q, SelectedIndex i => probability_of_index (mechanism_of q) (coefficient q) (scores q rows) i
    | _, _ => 0%R
    end.
  Definition as_query (q : question) : query test outcome record reply :=
    match q with
    | Sum s => Query test outcome record reply (region_of s) (cost s) (law q)
    | Select s => Query test outcome record reply (selection_region s) (selection_cost s) (law q)
    end.

  (* A learner sees replies and refusals, and nothing else. *)
  Variable learner : list (response reply) -> option question.
  Definition analyst (h : list (response reply)) := option_map as_query (learner h).
  Definition transcript_probability (rows : list record) (t : list (response reply)) : R :=
    probability test outcome test_eq outcome_eq record reply analyst budget rows [] [] t.
  Definition person_cost (person : list record) (q : question) : Z :=
    pays_all test outcome outcome_eq record outcome_of person (charge_of test outcome record reply (as_query q)).

  Lemma l1_pos : forall q, 0 < l1 (of_person (repeated (bound q) (groups q)) m).
  Proof.
    intro q. destruct (bound_positive q) as [p _]. pose proof (groups_pos q). simpl. nia.
  Qed.

  Lemma rate_pos : forall q, (0 < rate q)%R.
  Proof.
    intro q. unfold rate. apply Rdiv_lt_0_compat.
    - apply Rmult_lt_0_compat; [exact unit_pos|]. apply IZR_lt, (cost_pos q).
    - apply IZR_lt, l1_pos.
  Qed.

  Lemma exact_length : forall q rows, length (exact q rows) = (groups q * (cells q * channels q))%nat.
  Proof. intros q rows. apply answer_length. apply contribution_length. Qed.

  Lemma exact_permuted : forall q rows rows', Permutation rows rows' -> exact q rows = exact q rows'.
  Proof.
    intros q rows rows' P. unfold exact. induction P as [|r x y P IH|r s x|x y z P1 IH1 P2 IH2]; simpl.
    - reflexivity.
    - rewrite IH. reflexivity.
    - rewrite !vadd_assoc. f_equal. apply vadd_comm.
    - congruence.
  Qed.

  Lemma L1_sym : forall x y, L1 (vsub x y) = L1 (vsub y x).
  Proof.
    unfold L1. induction x as [|a x IH]; intros [|b y]; try reflexivity.
    cbn [vsub]. rewrite !norm_cons, IH. lia.
  Qed.

  (* A person's records move the answer by the bound for each of them that is in the region. *)
  Lemma sum_moved : forall q person rows,
    L1 (vsub (exact q (person ++ rows)) (exact q rows)) * cost q <=
    l1 (repeated (bound q) (groups q)) * person_cost person (Sum q).
  Proof.
    intros q person rows. unfold person_cost, pays_all. induction person as [|r rest IH].
    - simpl app. replace (L1 (vsub (exact q rows) (exact q rows))) with 0; [simpl; lia|].
      clear. unfold L1. induction (exact q rows) as [|a x IH]; [reflexivity|].
      cbn [vsub]. rewrite norm_cons, <- IH. lia.
    - simpl app. cbn [map total_of].
      change (exact q (r :: rest ++ rows)) with (vadd (part_of q r) (exact q (rest ++ rows))).
      assert (T : L1 (vsub (vadd (part_of q r) (exact q (rest ++ rows))) (exact q rows)) <=
                  L1 (part_of q r) + L1 (vsub (exact q (rest ++ rows)) (exact q rows))).
      { assert (E : length (part_of q r) = length (exact q (rest ++ rows))).
        { rewrite exact_length. apply record_part_length. apply contribution_length. }
        assert (F : length (part_of q r) = length (exact q rows)).
        { rewrite exact_length. apply record_part_length. apply contribution_length. }
        revert E F. generalize (part_of q r), (exact q (rest ++ rows)), (exact q rows). clear. unfold L1.
        induction v as [|a v IH]; intros [|b y] [|c z] E F; try discriminate E; try discriminate F.
        - cbv. discriminate.
        - cbn [vadd vsub]. rewrite !norm_cons. injection E as E. injection F as F.
          specialize (IH y z E F). lia. }
      assert (P : L1 (part_of q r) * cost q <=
                  l1 (repeated (bound q) (groups q)) *
                  pays test outcome outcome_eq record outcome_of r (charge_of test outcome record reply (as_query (Sum q)))).
      { unfold pays. simpl fst. simpl snd. fold (inside_region q r).
        destruct (inside_region q r) eqn:I.
        - destruct (one_record record (groups q) (cells q) (channels q) (cell q) (contribution q) (bound q)
                      (inside_region q) (cell_lt q) (bound_positive q) r) as [a _].
          fold (part_of q r) in a. pose proof (cost_pos q). simpl cost. nia.
        - unfold part_of, record_part. rewrite I. unfold L1. rewrite norm_zeros by reflexivity. lia. }
      pose proof (cost_pos q). nia.
  Qed.

  Lemma priced_by : forall q person rows y d d',
    (d = exact q (person ++ rows) /\ d' = exact q rows) \/ (d = exact q rows /\ d' = exact q (person ++ rows)) ->
    (release (rate q) d y <=
     exp (unit / IZR m * IZR (person_cost person (Sum q))) * release (rate q) d' y)%R.
  Proof.
    intros q person rows y d d' which.
    assert (E : length d = length d') by (destruct which as [[-> ->]|[-> ->]]; rewrite !exact_length; reflexivity).
    assert (B : L1 (vsub d d') * cost q <= l1 (repeated (bound q) (groups q)) * person_cost person (Sum q)).
    { destruct which as [[-> ->]|[-> ->]]; [|rewrite L1_sym]; apply sum_moved. }
    eapply Rle_trans; [apply release_ratio; [apply rate_pos|exact E]|].
    apply Rmult_le_compat_r; [apply release_nonneg, rate_pos|].
    set (p := person_cost person (Sum q)) in *.
    assert (S : 0 < l1 (repeated (bound q) (groups q))).
    { destruct (bound_positive q) as [b _]. pose proof (groups_pos q). simpl. nia. }
    assert (D : (rate q * IZR (L1 (vsub d d')) <= unit / IZR m * IZR p)%R).
    { unfold rate. replace (l1 (of_person (repeated (bound q) (groups q)) m))
        with (l1 (repeated (bound q) (groups q)) * m) by reflexivity.
      rewrite mult_IZR. apply IZR_le in B. rewrite !mult_IZR in B. apply IZR_lt in S.
      assert (M : (0 < IZR m)%R) by (apply IZR_lt; exact m_pos).
      replace (unit * IZR (cost q) / (IZR (l1 (repeated (bound q) (groups q))) * IZR m) * IZR (L1 (vsub d d')))%R
        with (unit / IZR m * (IZR (L1 (vsub d d')) * IZR (cost q) / IZR (l1 (repeated (bound q) (groups q)))))%R
        by (field; lra).
      apply Rmult_le_compat_l.
      - apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat, M].
      - apply (Rmult_le_reg_r (IZR (l1 (repeated (bound q) (groups q))))); [exact S|].
        unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
    destruct D as [D|D]; [left; apply exp_increasing; exact D|right; f_equal; exact D].
  Qed.

  (* -------------------------------------------------------------------------------- selections *)
  Lemma scores_of_person : forall q person rows, exists n low,
    0 <= n /\ n * selection_cost q = person_cost person (Select q) /\
    moved low (reach q * n) (scores q rows) (scores q (person ++ rows)).
  Proof.
    intros q person rows. unfold person_cost, pays_all. induction person as [|z rest IH].
    - exists 0, 0. repeat split; [lia|]. simpl app. rewrite Z.mul_0_r. clear.
      induction (scores q rows); constructor; [lia|assumption].
    - destruct IH as [n [low [N [P M]]]]. pose proof (scores_move q z (rest ++ rows)) as S.
      simpl app. cbn [map total_of]. rewrite <- P. clear P.
      replace (pays test outcome outcome_eq record outcome_of z (charge_of test outcome record reply (as_query (Select q))))
        with (if inside test outcome outcome_eq record outcome_of z (selection_region q) then selection_cost q else 0) by reflexivity.
      destruct (inside test outcome outcome_eq record outcome_of z (selection_region q)).
      + destruct S as [low' S]. exists (n + 1), (low + low'). split; [lia|split; [ring|]].
        replace (reach q * (n + 1)) with (reach q * n + reach q) by ring.
        apply (moved_on _ _ _ _ _ _ _ M S).
      + exists n, low. split; [lia|split; [ring|]]. rewrite S. exact M.
  Qed.

  Lemma coefficient_nonneg : forall q, (0 <= coefficient q)%R.
  Proof.
    intro q. unfold coefficient. apply Rmult_le_pos.
    - apply Rmult_le_pos; [lra|]. apply IZR_le. pose proof (selection_cost_pos q). lia.
    - left. apply Rinv_0_lt_compat, IZR_lt. pose proof (reach_pos q). nia.
  Qed.

  Lemma selection_priced : forall q person rows i u u',
    (u = scores q (person ++ rows) /\ u' = scores q rows) \/ (u = scores q rows /\ u' = scores q (person ++ rows)) ->
    (probability_of_index (mechanism_of q) (coefficient q) u i <=
     exp (unit / IZR m * IZR (person_cost person (Select q))) * probability_of_index (mechanism_of q) (coefficient q) u' i)%R.
  Proof.
    intros q person rows i u u' which.
    destruct (scores_of_person q person rows) as [n [low [N [P M]]]]. rewrite <- P.
    replace (unit / IZR m * IZR (n * selection_cost q))%R with (coefficient q * IZR (reach q * n))%R.
    - pose proof (reach_pos q). assert (0 <= reach q * n) by nia. pose proof (coefficient_nonneg q).
      destruct which as [[-> ->]|[-> ->]].
      + eapply probability_of_index_ratio; [assumption|assumption|]. apply moved_back. exact M.
      + eapply probability_of_index_ratio; [assumption|assumption|exact M].
    - unfold coefficient. pose proof (reach_pos q) as Q. apply IZR_lt in Q. pose proof m_pos as K. apply IZR_lt in K.
      rewrite !mult_IZR. field. lra.
  Qed.

  (* ------------------------------------------------------------------------------ the guarantee *)
  (* `bigger` has the records of `smaller` and those of one person, in any order. *)
  Definition neighbours (smaller bigger : list record) : Prop :=
    exists person, Z.of_nat (length person) <= m /\ Permutation bigger (person ++ smaller).

  Theorem guarantee : forall smaller bigger t, neighbours smaller bigger ->
    (transcript_probability smaller t <= exp (unit * IZR budget) * transcript_probability bigger t)%R /\
    (transcript_probability bigger t <= exp (unit * IZR budget) * transcript_probability smaller t)%R.
  Proof.
    intros smaller bigger t [person [few P]]. unfold transcript_probability.
    assert (priced : forall (d d' : list record) (which : (d = bigger /\ d' = smaller) \/ (d = smaller /\ d' = bigger)) h q,
      analyst h = Some q -> 0 <= q_cost _ _ _ _ q /\ (forall a, (0 <= q_law _ _ _ _ q d a)%R) /\
      (forall a, (q_law _ _ _ _ q d a <=
        exp (unit / IZR m * IZR (pays_all test outcome outcome_eq record outcome_of person
               (charge_of test outcome record reply q))) * q_law _ _ _ _ q d' a)%R)).
    { intros d d' which h q A. unfold analyst in A. destruct (learner h) as [s|]; [|discriminate A].
      injection A as <-. destruct s as [s|s].
      - split; [pose proof (cost_pos s); simpl; lia|]. split.
        + intros [x|i]; simpl; [apply release_nonneg, rate_pos|lra].
        + intros [x|i]; [|simpl; lra]. apply (priced_by s person smaller).
          destruct which as [[-> ->]|[-> ->]]; rewrite (exact_permuted s _ _ P); tauto.
      - split; [pose proof (selection_cost_pos s); simpl; lia|]. split.
        + intros [x|i]; simpl; [lra|apply probability_of_index_nonneg, coefficient_nonneg].
        + intros [x|i]; [simpl; lra|]. apply (selection_priced s person smaller).
          destruct which as [[-> ->]|[-> ->]]; rewrite (scores_permuted s _ _ P); tauto. }
    split; apply (privacy_filter test outcome test_eq outcome_eq record outcome_of reply analyst budget unit
                    (Rlt_le _ _ unit_pos) _ _ person m m_pos few budget_nonneg); apply priced; tauto.
  Qed.

  (* For every event, a finite or an endless list of transcripts. *)
  Fixpoint event_probability (rows : list record) (event : list (list (response reply))) : R :=
    match event with [] => 0%R | t :: rest => (transcript_probability rows t + event_probability rows rest)%R end.

  Theorem guarantee_of_events : forall smaller bigger event, neighbours smaller bigger ->
    (event_probability smaller event <= exp (unit * IZR budget) * event_probability bigger event)%R /\
    (event_probability bigger event <= exp (unit * IZR budget) * event_probability smaller event)%R.
  Proof.
    intros smaller bigger event N. induction event as [|t rest [IH1 IH2]]; simpl; [split; lra|].
    destruct (guarantee smaller bigger t N). split; lra.
  Qed.

  Theorem guarantee_of_countable_events : forall smaller bigger (event : nat -> list (response reply)) p p',
    neighbours smaller bigger ->
    infinite_sum (fun n => transcript_probability smaller (event n)) p ->
    infinite_sum (fun n => transcript_probability bigger (event n)) p' ->
    (p <= exp (unit * IZR budget) * p')%R /\ (p' <= exp (unit * IZR budget) * p)%R.
  Proof.
    intros smaller bigger event p p' N S S'.
    set (e := exp (unit * IZR budget)).
    assert (scaled : forall f l, infinite_sum f l -> infinite_sum (fun n => e * f n)%R (e * l)%R).
    { intros f l H. intros eps pos. assert (E : (0 < e)%R) by apply exp_pos.
      destruct (H (eps / e)%R) as [k K]; [apply Rdiv_lt_0_compat; assumption|].
      exists k. intros n ge. specialize (K n ge). unfold R_dist in *.
      assert (F : sum_f_R0 (fun n => e * f n)%R n = (e * sum_f_R0 f n)%R).
      { rewrite scal_sum. apply sum_eq. intros. ring. }
      rewrite F. replace (e * sum_f_R0 f n - e * l)%R with (e * (sum_f_R0 f n - l))%R by ring.
      rewrite Rabs_mult, (Rabs_pos_eq e) by lra.
      apply (Rmult_lt_reg_l (/ e)); [apply Rinv_0_lt_compat, E|].
      rewrite <- Rmult_assoc, Rinv_l, Rmult_1_l by lra. unfold Rdiv in K. lra. }
    split.
    - apply (@Rle_cv_lim (sum_f_R0 (fun n => transcript_probability smaller (event n)))
                         (sum_f_R0 (fun n => e * transcript_probability bigger (event n))%R)).
      + intro n. apply sum_Rle. intros k _. apply (guarantee smaller bigger (event k) N).
      + exact S.
      + apply scaled. exact S'.
    - apply (@Rle_cv_lim (sum_f_R0 (fun n => transcript_probability bigger (event n)))
                         (sum_f_R0 (fun n => e * transcript_probability smaller (event n))%R)).
      + intro n. apply sum_Rle. intros k _. apply (guarantee smaller bigger (event k) N).
      + exact S'.
      + apply scaled. exact S.
  Qed.
End Guarantee.

(* ----------------------------------------------------------------------------- an example
   That the guarantee is about something: a learner that looks at class counts of all rows, then of the
   side that its noisy answer points to. Budget 2, each question costs 1, a third would be refused. *)

Definition row := (bool * bool)%type.                 (* one feature, one label *)
Definition feature_of (r : row) (_ : unit) : bool := fst r.
Lemma unit_eq : forall a b : unit, {a = b} + {a <> b}.
Proof. decide equality. Defined.

Definition count_row (r : row) : vector := if snd r then [0; 1] else [1; 0].
Lemma count_row_length : forall r, length (count_row r) = 2%nat.
Proof. intros [a []]; reflexivity. Qed.
Lemma one_positive : positive (Sens 1 1 1).
Proof. cbv. repeat split; discriminate. Qed.

Lemma one_cost : 0 < 1. Proof. lia. Qed.
Lemma one_group : (0 < 1)%nat. Proof. lia. Qed.
Definition counts (g : region unit bool) : sum_query row unit bool :=
  SumQuery row unit bool g 1 1 1 2 (fun _ _ => 0%nat) count_row (Sens 1 1 1)
    one_cost one_group (fun _ _ => le_n 1) count_row_length one_positive.
Definition ask (g : region unit bool) : question row unit bool bool_dec feature_of :=
  Sum row unit bool bool_dec feature_of (counts g).

Definition learner (h : list (response reply)) : option (question row unit bool bool_dec feature_of) :=
  match h with
  | [] => Some (ask [])
  | [Answered _ (Numbers (a :: b :: _))] => Some (ask [(tt, a <? b)])
  | _ => Some (ask [])
  end.

Definition example_probability := transcript_probability row unit bool unit_eq bool_dec feature_of 1%R 2 1 learner.

Theorem guarantee_is_not_empty : forall rows x y a b, (0 < example_probability rows [Answered _ (Numbers [x; y]); Answered _ (Numbers [a; b]); Refused _])%R.
Proof.
  intros rows x y a b. unfold example_probability, transcript_probability.
  assert (R : forall n : Z, 0 < n -> (0 < 1 * 1 / IZR n)%R).
  { intros n N. apply IZR_lt in N. apply Rdiv_lt_0_compat; lra. }
  assert (P : forall rate u v c d, (0 < rate)%R -> (0 < release rate [u; v] [c; d])%R).
  { intros rate u v c d H. simpl. pose proof (laplace_pos rate (c - u) H). pose proof (laplace_pos rate (d - v) H).
    rewrite Rmult_1_r. apply Rmult_lt_0_compat; assumption. }
  assert (E : forall g, exists u v, forall d, law row unit bool bool_dec feature_of 1 1 (ask g) rows (Numbers d) =
              release (1 * 1 / 1) [u; v] d).
  { intro g. pose proof (exact_length row unit bool bool_dec feature_of (counts g) rows) as L.
    unfold law, ask. destruct (exact row unit bool bool_dec feature_of (counts g) rows) as [|u [|v [|w l]]];
      simpl in L; try discriminate L.
    exists u, v. intro d. unfold rate. simpl. reflexivity. }
  assert (R1 : (0 < 1 * 1 / 1)%R) by lra.
  destruct (E []) as [u [v E1]]. destruct (E [(tt, x <? y)]) as [u' [v' E2]].
  cbn [probability analyst learner option_map as_query ask q_region q_cost q_law app].
  assert (C : forall g, charge_of unit bool row reply
    (Query unit bool row reply (region_of row unit bool (counts g)) (cost row unit bool (counts g))
       (law row unit bool bool_dec feature_of 1 1 (ask g))) = (g, 1)) by reflexivity.
  fold (ask []). fold (ask [(tt, x <? y)]). rewrite !C.
  repeat match goal with |- context [if ?c then _ else _] =>
    first [replace c with true by (destruct (x <? y); vm_compute; reflexivity)
          |replace c with false by (destruct (x <? y); vm_compute; reflexivity)] end.
  rewrite E1, E2. apply Rmult_lt_0_compat; [apply P, R1|].
  apply Rmult_lt_0_compat; [apply P, R1|]. lra.
Qed.
