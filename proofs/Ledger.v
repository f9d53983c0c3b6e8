(* The region ledger: privacy/ledger/charges.py and docs/proofs/ledger.md, sections 1 to 3.

   Costs are whole numbers of a unit, as in `Tally`. A test is its meaning: two tests that are
   equal have the same outcome for every record. *)
From Coq Require Import ZArith List Lia Arith Bool Reals Lra.
Import ListNotations.

Section Regions.
  Variables test outcome : Type.
  Variable test_eq : forall a b : test, {a = b} + {a <> b}.
  Variable outcome_eq : forall a b : outcome, {a = b} + {a <> b}.

  Definition region := list (test * outcome).
  Definition charge := (region * Z)%type.
  Open Scope Z_scope.

  Fixpoint total_of (zs : list Z) : Z := match zs with [] => 0 | z :: r => z + total_of r end.
  Fixpoint largest (zs : list Z) : Z := match zs with [] => 0 | z :: r => Z.max z (largest r) end.

  (* -------------------------------------------------------------- what the ledger computes *)
  Definition own_cost (c : charge) : Z := match fst c with [] => snd c | _ :: _ => 0 end.
  Definition first_test (c : charge) : list test := match fst c with [] => [] | (t, _) :: _ => [t] end.
  Definition tests (cs : list charge) : list test := nodup test_eq (flat_map first_test cs).
  Definition continuing (t : test) (o : outcome) (c : charge) : list charge :=
    match fst c with
    | (t', o') :: rest =>
        if test_eq t t' then if outcome_eq o o' then [(rest, snd c)] else [] else []
    | [] => []
    end.
  Definition outcomes (t : test) (cs : list charge) : list outcome :=
    nodup outcome_eq (flat_map (fun c => match fst c with
      | (t', o') :: _ => if test_eq t t' then [o'] else [] | [] => [] end) cs).

  (* At a node: its own charges, plus for every test the worst of its outcomes. *)
  Fixpoint worst_total (depth : nat) (cs : list charge) : Z :=
    match depth with
    | O => total_of (map snd cs)
    | S d => total_of (map own_cost cs) +
             total_of (map (fun t => largest (map (fun o => worst_total d (flat_map (continuing t o) cs))
                                                  (outcomes t cs))) (tests cs))
    end.
  Definition longest (cs : list charge) : nat :=
    fold_right (fun c n => Nat.max (length (fst c)) n) O cs.
  Definition ledger_total (cs : list charge) : Z := worst_total (longest cs) cs.

  (* ----------------------------------------------------------------------- what a record pays *)
  Variable record : Type.
  Variable outcome_of : record -> test -> outcome.     (* of the record alone *)

  Definition has (r : record) (s : test * outcome) : bool :=
    if outcome_eq (outcome_of r (fst s)) (snd s) then true else false.
  Definition inside (r : record) (g : region) : bool := forallb (has r) g.
  Definition pays (r : record) (c : charge) : Z := if inside r (fst c) then snd c else 0.
  Definition paid (r : record) (cs : list charge) : Z := total_of (map (pays r) cs).

  Definition nonneg (cs : list charge) : Prop := Forall (fun c => 0 <= snd c) cs.

  Lemma total_of_app : forall x y, total_of (x ++ y) = total_of x + total_of y.
  Proof. induction x as [|a x IH]; intro y; simpl; [reflexivity|rewrite IH; lia]. Qed.

  Lemma largest_in : forall zs z, In z zs -> z <= largest zs.
  Proof. induction zs as [|a zs IH]; simpl; [tauto|]. intros z [E|I]; [subst; lia|]. specialize (IH z I). lia. Qed.

  Lemma largest_nonneg : forall zs, 0 <= largest zs.
  Proof. induction zs; simpl; lia. Qed.

  Lemma paid_le_all : forall r cs, nonneg cs -> paid r cs <= total_of (map snd cs).
  Proof.
    intros r cs N. unfold paid. induction N as [|c cs pos N IH]; simpl; [lia|].
    unfold pays at 1. destruct (inside r (fst c)); lia.
  Qed.

  Lemma nonneg_below : forall t o cs, nonneg cs -> nonneg (flat_map (continuing t o) cs).
  Proof.
    intros t o cs N. induction N as [|c cs pos N IH]; simpl; [constructor|].
    apply Forall_app. split; [|exact IH].
    unfold continuing. destruct (fst c) as [|[t' o'] rest]; [constructor|].
    destruct (test_eq t t'); [|constructor]. destruct (outcome_eq o o'); [|constructor].
    constructor; [exact pos|constructor].
  Qed.

  (* What a record pays under one test is what it pays in its own outcome of it. *)
  Definition paid_under (t : test) (r : record) (c : charge) : Z :=
    match fst c with
    | (t', _) :: _ => if test_eq t t' then pays r c else 0
    | [] => 0
    end.

  Lemma under_below : forall t r cs,
    total_of (map (paid_under t r) cs) = paid r (flat_map (continuing t (outcome_of r t)) cs).
  Proof.
    intros t r cs. unfold paid. induction cs as [|c cs IH]; [reflexivity|].
    simpl. rewrite map_app, total_of_app, IH. f_equal.
    destruct c as [[|[t' o'] rest] z]; unfold paid_under, continuing; simpl; [reflexivity|].
    destruct (test_eq t t') as [E|E]; [subst t'|reflexivity].
    unfold pays, inside; simpl. unfold has at 1; simpl.
    destruct (outcome_eq (outcome_of r t) o'); simpl; [|reflexivity]. unfold pays, inside. simpl. lia.
  Qed.

  Lemma under_le_worst : forall d t r cs,
    (forall cs', nonneg cs' -> paid r cs' <= worst_total d cs') -> nonneg cs ->
    total_of (map (paid_under t r) cs) <=
    largest (map (fun o => worst_total d (flat_map (continuing t o) cs)) (outcomes t cs)).
  Proof.
    intros d t r cs IH N. rewrite under_below.
    destruct (in_dec outcome_eq (outcome_of r t) (outcomes t cs)) as [I|I].
    - eapply Z.le_trans; [apply IH, nonneg_below, N|]. apply largest_in.
      apply (in_map (fun o => worst_total d (flat_map (continuing t o) cs))). exact I.
    - replace (flat_map (continuing t (outcome_of r t)) cs) with (@nil charge); [apply largest_nonneg|].
      symmetry. unfold outcomes in I. rewrite nodup_In in I. clear N IH.
      induction cs as [|c cs IHcs]; [reflexivity|]. simpl in I |- *. rewrite in_app_iff in I.
      rewrite IHcs by tauto. rewrite app_nil_r. destruct c as [[|[t' o'] rest] z]; [reflexivity|].
      unfold continuing. simpl in I |- *. destruct (test_eq t t'); [|reflexivity].
      destruct (outcome_eq (outcome_of r t) o') as [E|E]; [|reflexivity].
      exfalso. apply I. left. left. congruence.
  Qed.

  (* A charge is either the node's own or under its first test. *)
  Lemma split_by_test : forall r cs ts, NoDup ts ->
    (forall c, In c cs -> match fst c with [] => True | (t, _) :: _ => In t ts end) ->
    paid r cs = total_of (map own_cost cs) +
                total_of (map (fun t => total_of (map (paid_under t r) cs)) ts).
  Proof.
    intros r cs ts ND. unfold paid. induction cs as [|c cs IH]; intro A.
    - simpl. clear. induction ts as [|t ts IH]; simpl; lia.
    - simpl. rewrite IH by (intros c' I; apply A; right; exact I). clear IH.
      assert (Z : total_of (map (fun t => paid_under t r c + total_of (map (paid_under t r) cs)) ts) =
                  total_of (map (fun t => paid_under t r c) ts) +
                  total_of (map (fun t => total_of (map (paid_under t r) cs)) ts)).
      { clear. induction ts as [|t ts IH]; simpl; lia. }
      rewrite Z. clear Z.
      assert (U : pays r c = own_cost c + total_of (map (fun t => paid_under t r c) ts)); [|lia].
      specialize (A c (or_introl eq_refl)). unfold own_cost, paid_under.
      destruct c as [[|[t o] rest] z]; simpl in *.
      + unfold pays. simpl. clear. induction ts as [|t ts IH]; simpl; lia.
      + set (v := pays r ((t, o) :: rest, z)). clearbody v. clear - ND A.
        induction ND as [|t' ts N ND IH]; [destruct A|]. simpl.
        destruct (test_eq t' t) as [E|E].
        * subst t'. replace (total_of _) with 0; [lia|].
          clear - N. induction ts as [|s ts IH]; [reflexivity|]. simpl in *.
          destruct (test_eq s t); [subst; tauto|]. rewrite <- IH by tauto. reflexivity.
        * destruct A as [A|A]; [congruence|]. specialize (IH A). lia.
  Qed.

  Lemma total_of_le : forall (A : Type) (f g : A -> Z) xs,
    (forall x, In x xs -> f x <= g x) -> total_of (map f xs) <= total_of (map g xs).
  Proof.
    intros A f g xs H. induction xs as [|x xs IH]; simpl; [lia|].
    pose proof (H x (or_introl eq_refl)). specialize (IH (fun y I => H y (or_intror I))). lia.
  Qed.

  Theorem no_record_pays_more : forall depth r cs, nonneg cs -> paid r cs <= worst_total depth cs.
  Proof.
    induction depth as [|d IH]; intros r cs N; [apply paid_le_all, N|].
    rewrite (split_by_test r cs (tests cs)).
    - simpl. apply Z.add_le_mono_l. apply total_of_le. intros t _.
      apply under_le_worst; [intros cs' N'; apply IH, N'|exact N].
    - apply NoDup_nodup.
    - intros [[|[t o] rest] z] I; [exact Logic.I|]. simpl.
      unfold tests. rewrite nodup_In, in_flat_map. exists ((t, o) :: rest, z).
      split; [exact I|]. left. reflexivity.
  Qed.

  Corollary ledger_bounds_every_record : forall r cs, nonneg cs -> paid r cs <= ledger_total cs.
  Proof. intros r cs. apply no_record_pays_more. Qed.

  (* A round whose selections were priced by a remainder is taken only if the total leaves it:
     then it is left to every record. *)
  Theorem remainder_is_left : forall r cs budget remainder,
    nonneg cs -> ledger_total cs + remainder <= budget -> paid r cs + remainder <= budget.
  Proof. intros r cs budget remainder N. pose proof (ledger_bounds_every_record r cs N). lia. Qed.

  (* ------------------------------------------------------------------------- adaptive queries *)
  Section Filter.
    Variable answer : Type.
    Definition rows := list record.

    (* What is asked, what it costs and how it is drawn may depend on all that was said. *)
    Record query := Query {
      q_region : region;
      q_cost : Z;
      q_law : rows -> answer -> R;
    }.
    Definition charge_of (q : query) : charge := (q_region q, q_cost q).

    Inductive response := Answered (a : answer) | Refused.
    Variable analyst : list response -> option query.       (* None: it stops *)
    Variable budget : Z.
    Variable unit : R.                                  (* epsilon of one unit of cost *)
    Hypothesis unit_pos : (0 <= unit)%R.

    (* The probability that a run over D begins with the transcript t, when `cs` was charged and
       h was said before. The ledger says yes before anything is drawn; a refusal says nothing. *)
    Fixpoint probability (D : rows) (cs : list charge) (h t : list response) : R :=
      match t with
      | [] => 1%R
      | s :: t' =>
          match analyst h with
          | None => 0%R
          | Some q =>
              if ledger_total (charge_of q :: cs) <=? budget
              then match s with
                   | Answered a => (q_law q D a * probability D (charge_of q :: cs) (h ++ [s]) t')%R
                   | Refused => 0%R
                   end
              else match s with
                   | Answered _ => 0%R
                   | Refused => probability D cs (h ++ [s]) t'
                   end
          end
      end.

    (* ---------------------------------------------------------- one person, up to m records *)
    Section Pair.
      Variables D D' : rows.
      Variable person : list record.
      Variable m : Z.
      Hypothesis m_pos : 0 < m.
      Hypothesis at_most_m : Z.of_nat (length person) <= m.
      Hypothesis budget_nonneg : 0 <= budget.

      Definition pays_all (c : charge) : Z := total_of (map (fun z => pays z c) person).
      Definition paid_all (cs : list charge) : Z := total_of (map (fun z => paid z cs) person).

      (* Every query that may be asked costs each of the person's records that is in its region
         1/m of its price, and the others nothing. `Guarantee.v` shows this of noisy sums. *)
      Hypothesis priced : forall h q, analyst h = Some q ->
        0 <= q_cost q /\
        (forall a, (0 <= q_law q D a)%R) /\
        (forall a, (q_law q D a <= exp (unit / IZR m * IZR (pays_all (charge_of q))) * q_law q D' a)%R).

      Lemma paid_all_cons : forall c cs, paid_all (c :: cs) = pays_all c + paid_all cs.
      Proof.
        intros c cs. unfold paid_all, pays_all, paid. simpl. clear.
        induction person as [|z rest IH]; simpl; lia.
      Qed.

      Lemma paid_all_le : forall cs, nonneg cs -> ledger_total cs <= budget -> paid_all cs <= m * budget.
      Proof.
        intros cs N within. apply Z.le_trans with (Z.of_nat (length person) * budget); [|nia].
        unfold paid_all. clear at_most_m priced. induction person as [|z rest IH]; simpl map; [simpl; lia|].
        pose proof (ledger_bounds_every_record z cs N).
        change (total_of (paid z cs :: map (fun z => paid z cs) rest))
          with (paid z cs + total_of (map (fun z => paid z cs) rest)).
        simpl length. lia.
      Qed.

      Lemma exp_nonneg_ge_1 : forall x, (0 <= x)%R -> (1 <= exp x)%R.
      Proof.
        intros x [E|E]; [left; rewrite <- exp_0; apply exp_increasing, E|].
        subst x. rewrite exp_0. lra.
      Qed.

      Lemma filter_from : forall t cs h, nonneg cs -> ledger_total cs <= budget ->
        (0 <= probability D cs h t <=
         exp (unit / IZR m * IZR (m * budget - paid_all cs)) * probability D' cs h t)%R.
      Proof.
        assert (M : (0 < IZR m)%R) by (apply IZR_lt; exact m_pos).
        assert (U : (0 <= unit / IZR m)%R).
        { apply Rmult_le_pos; [exact unit_pos|left; apply Rinv_0_lt_compat, M]. }
        induction t as [|s t IH]; intros cs h N within; simpl.
        - split; [lra|]. rewrite Rmult_1_r. apply exp_nonneg_ge_1.
          pose proof (paid_all_le cs N within).
          apply Rmult_le_pos; [exact U|]. apply IZR_le. lia.
        - destruct (analyst h) as [q|] eqn:A; [|split; [lra|rewrite Rmult_0_r; lra]].
          destruct (priced h q A) as [pos [nn ratio]].
          destruct (Z.leb_spec (ledger_total (charge_of q :: cs)) budget) as [yes|no].
          + destruct s as [a|]; [|split; [lra|rewrite Rmult_0_r; lra]].
            assert (N' : nonneg (charge_of q :: cs)) by (constructor; [exact pos|exact N]).
            destruct (IH (charge_of q :: cs) (h ++ [Answered a]) N' yes) as [low high].
            specialize (nn a). specialize (ratio a). split; [apply Rmult_le_pos; assumption|].
            replace (m * budget - paid_all cs)
              with (pays_all (charge_of q) + (m * budget - paid_all (charge_of q :: cs)))
              by (rewrite paid_all_cons; lia).
            rewrite plus_IZR, Rmult_plus_distr_l, exp_plus.
            eapply Rle_trans; [apply Rmult_le_compat; [exact nn|exact low|exact ratio|exact high]|].
            right. ring.
          + destruct s as [a|]; [split; [lra|rewrite Rmult_0_r; lra]|]. apply IH; assumption.
      Qed.

      (* For every transcript, however it came about. *)
      Theorem privacy_filter : forall t, (probability D [] [] t <= exp (unit * IZR budget) * probability D' [] [] t)%R.
      Proof.
        intro t. destruct (filter_from t [] [] (Forall_nil _) budget_nonneg) as [_ H].
        assert (M : (0 < IZR m)%R) by (apply IZR_lt; exact m_pos).
        replace (unit * IZR budget)%R with (unit / IZR m * IZR (m * budget - paid_all []))%R; [exact H|].
        replace (paid_all []) with 0; [rewrite Z.sub_0_r, mult_IZR; field; lra|].
        unfold paid_all, paid. simpl. clear. induction person; simpl; lia.
      Qed.
    End Pair.

    (* ------------------------------------------------- measures that add up in the same way *)
    (* rho: the moment sum_t P(t)^a Q(t)^(1-a) of a run of at most n steps, over any finite list
       of answers, where each step's moment is at most exp(kappa cost / m) for each of the person's
       records that it concerns. With kappa = a (a - 1) and cost = rho this is the zCDP filter at the
       order a. *)
    Section Moments.
      Variable person : list record.
      Variable m : Z.
      Hypothesis m_pos : 0 < m.
      Hypothesis at_most_m : Z.of_nat (length person) <= m.
      Hypothesis budget_nonneg : 0 <= budget.
      Variable answers : list answer.
      Variable weight : query -> answer -> R.
      Variable kappa : R.
      Hypothesis kappa_nonneg : (0 <= kappa)%R.
      Fixpoint sumR (xs : list R) : R := match xs with [] => 0%R | x :: r => (x + sumR r)%R end.

      Hypothesis step : forall h q, analyst h = Some q ->
        0 <= q_cost q /\ (forall a, (0 <= weight q a)%R) /\
        (sumR (map (weight q) answers) <= exp (kappa / IZR m * IZR (pays_all person (charge_of q))))%R.

      Fixpoint moment (n : nat) (cs : list charge) (h : list response) : R :=
        match n with
        | O => 1%R
        | S n' =>
            match analyst h with
            | None => 1%R
            | Some q =>
                if ledger_total (charge_of q :: cs) <=? budget
                then sumR (map (fun a => (weight q a * moment n' (charge_of q :: cs) (h ++ [Answered a]))%R) answers)
                else moment n' cs (h ++ [Refused])
            end
        end.

      Lemma sumR_le : forall f g (xs : list answer), (forall x, (f x <= g x)%R) ->
        (sumR (map f xs) <= sumR (map g xs))%R.
      Proof. intros f g xs H. induction xs as [|x xs IH]; simpl; [lra|]. specialize (H x). lra. Qed.

      Lemma sumR_scale : forall c f (xs : list answer),
        sumR (map (fun x => (f x * c)%R) xs) = (sumR (map f xs) * c)%R.
      Proof. intros c f xs. induction xs as [|x xs IH]; simpl; [lra|]. rewrite IH. lra. Qed.

      Theorem moment_filter : forall n cs h, nonneg cs -> ledger_total cs <= budget ->
        (moment n cs h <= exp (kappa / IZR m * IZR (m * budget - paid_all person cs)))%R.
      Proof.
        assert (M : (0 < IZR m)%R) by (apply IZR_lt; exact m_pos).
        assert (base : forall cs, nonneg cs -> ledger_total cs <= budget ->
                       (1 <= exp (kappa / IZR m * IZR (m * budget - paid_all person cs)))%R).
        { intros cs N within. apply exp_nonneg_ge_1. apply Rmult_le_pos.
          - apply Rmult_le_pos; [exact kappa_nonneg|left; apply Rinv_0_lt_compat, M].
          - apply IZR_le. assert (paid_all person cs <= m * budget) by (apply paid_all_le; assumption). lia. }
        induction n as [|n IH]; intros cs h N within; simpl; [apply base; assumption|].
        destruct (analyst h) as [q|] eqn:A; [|apply base; assumption].
        destruct (step h q A) as [pos [nn one]].
        destruct (Z.leb_spec (ledger_total (charge_of q :: cs)) budget) as [yes|no]; [|apply IH; assumption].
        assert (N' : nonneg (charge_of q :: cs)) by (constructor; [exact pos|exact N]).
        set (rest := exp (kappa / IZR m * IZR (m * budget - paid_all person (charge_of q :: cs)))).
        apply Rle_trans with (sumR (map (fun a => (weight q a * rest)%R) answers)).
        - apply sumR_le. intro a. apply Rmult_le_compat_l; [apply nn|]. apply IH; assumption.
        - rewrite sumR_scale. replace (m * budget - paid_all person cs)
            with (pays_all person (charge_of q) + (m * budget - paid_all person (charge_of q :: cs)))
            by (rewrite paid_all_cons; lia).
          rewrite plus_IZR, Rmult_plus_distr_l, exp_plus. fold rest.
          apply Rmult_le_compat_r; [left; apply exp_pos|exact one].
      Qed.
    End Moments.

    (* mu^2, and whatever else adds up: on every transcript, what a record has paid stays within
       the budget. (From here to mu-GDP: docs/proofs/discrete_gaussian_gdp.md, section 4.) *)
    Fixpoint charges_after (cs : list charge) (h t : list response) : list charge :=
      match t with
      | [] => cs
      | s :: t' =>
          match analyst h with
          | None => cs
          | Some q => if ledger_total (charge_of q :: cs) <=? budget
                      then charges_after (charge_of q :: cs) (h ++ [s]) t'
                      else charges_after cs (h ++ [s]) t'
          end
      end.

    Theorem always_within : forall r t cs h,
      (forall h' q, analyst h' = Some q -> 0 <= q_cost q) -> nonneg cs -> ledger_total cs <= budget ->
      paid r (charges_after cs h t) <= budget.
    Proof.
      intros r t. induction t as [|s t IH]; intros cs h pos N within; simpl.
      - pose proof (ledger_bounds_every_record r cs N). lia.
      - destruct (analyst h) as [q|] eqn:A.
        + destruct (Z.leb_spec (ledger_total (charge_of q :: cs)) budget); apply IH; try assumption.
          constructor; [apply (pos h q A)|exact N].
        + pose proof (ledger_bounds_every_record r cs N). lia.
    Qed.
  End Filter.
End Regions.

(* Selections among sums: docs/proofs/discrete_gaussian_gdp.md, section 4. A profile says which delta
   a run keeps at each epsilon. A step with two likelihood ratios, exp high and exp (high - apart),
   mixes the profiles of what follows. Of Gaussian noise three facts are premises: sums may adapt, mu^2 adds up,
   more of it keeps less; the lemma on one selection is `Gaussian.AmongSums`. The filter is proved from them. *)
Section SelectionsAmongSums.
  Open Scope R_scope.
  Definition profile := R -> R.
  Definition below (f g : profile) : Prop := forall a, f a <= g a.
  Definition two_ratios (high apart weight : R) (f g : profile) : profile :=
    fun a => weight * f (a - high) + (1 - weight) * g (a - high + apart).
  Definition mean_one (high apart weight : R) : Prop :=
    weight * exp (- high) + (1 - weight) * exp (apart - high) = 1.

  Variable gaussian : R -> profile.                        (* noise of mu^2 *)
  Variable sum_then : R -> (R -> profile) -> profile.      (* a sum that costs mu^2, and what follows *)
  Hypothesis sums_adapt : forall c f g, (forall y, below (f y) g) -> below (sum_then c f) (sum_then c (fun _ => g)).
  Hypothesis sums_add : forall c s, 0 <= c -> 0 <= s -> below (sum_then c (fun _ => gaussian s)) (gaussian (c + s)).
  Hypothesis more_is_less : forall s m, 0 <= s <= m -> below (gaussian s) (gaussian m).
  Hypothesis one_selection : forall c s high apart weight,
    0 < c -> 0 < s -> 0 <= weight <= 1 -> mean_one high apart weight ->
    apart * apart / 4 <= c * s / (c + s) ->
    below (two_ratios high apart weight (gaussian s) (gaussian s)) (gaussian (c + s)).

  Inductive run :=
  | Ends
  | Sums (cost : R) (next : R -> run)
  | Selects (cost remainder high apart weight : R) (first second : run).

  Fixpoint profile_of (r : run) : profile :=
    match r with
    | Ends => gaussian 0
    | Sums c next => sum_then c (fun y => profile_of (next y))
    | Selects c _ high apart weight a b => two_ratios high apart weight (profile_of a) (profile_of b)
    end.

  (* What a ledger that has mu^2 left takes, whatever was answered. *)
  Fixpoint taken (left : R) (r : run) : Prop :=
    match r with
    | Ends => 0 <= left
    | Sums c next => 0 <= c <= left /\ forall y, taken (left - c) (next y)
    | Selects c s high apart weight a b =>
        0 < c /\ 0 < s <= left - c /\ 0 <= weight <= 1 /\ mean_one high apart weight /\
        apart * apart / 4 <= c * s / (c + s) /\ taken (left - c) a /\ taken (left - c) b
    end.

  Lemma more_left_is_enough : forall c s m, 0 < c -> 0 < s <= m -> c * s / (c + s) <= c * m / (c + m).
  Proof.
    intros c s m pos [spos le].
    apply (Rmult_le_reg_r ((c + s) * (c + m))); [apply Rmult_lt_0_compat; lra|].
    replace (c * s / (c + s) * ((c + s) * (c + m))) with (c * s * (c + m)) by (field; lra).
    replace (c * m / (c + m) * ((c + s) * (c + m))) with (c * m * (c + s)) by (field; lra).
    assert (c * c * s <= c * c * m) by (apply Rmult_le_compat_l; nra). nra.
  Qed.

  Theorem filter_of_selections_among_sums : forall r left, taken left r -> below (profile_of r) (gaussian left).
  Proof.
    induction r as [|c next IH|c s high apart weight a IHa b IHb]; intros left T; simpl in T |- *.
    - apply more_is_less. lra.
    - destruct T as [C T]. intro e. apply Rle_trans with (sum_then c (fun _ => gaussian (left - c)) e).
      + apply sums_adapt. intro y. apply IH, T.
      + pose proof (sums_add c (left - c)) as H. replace (c + (left - c)) with left in H by ring. apply H; lra.
    - destruct T as (C & S & W & M & E & A & B). intro e.
      apply Rle_trans with (two_ratios high apart weight (gaussian (left - c)) (gaussian (left - c)) e).
      + unfold two_ratios. apply Rplus_le_compat; apply Rmult_le_compat_l; try lra; [apply IHa, A|apply IHb, B].
      + pose proof (one_selection c (left - c) high apart weight) as H.
        replace (c + (left - c)) with left in H at 2 by ring. apply H; try lra; try assumption.
        eapply Rle_trans; [exact E|]. apply more_left_is_enough; lra.
  Qed.
End SelectionsAmongSums.
