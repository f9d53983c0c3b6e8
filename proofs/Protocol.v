(* A lying coordinator and c colluding sites against honest ones, one round, any number of sites:
   secagg/client.py, secagg/opening.py. Symbolic: signatures cannot be forged, a self-mask is known from
   `threshold` shares and not from fewer, a pair mask is known to its two ends and to those whom
   they tell. Masks.v says what then is seen of a set of sites whose pair masks nobody else knows.

   The coordinator may ask every honest site for signatures and openings of any sets in any order. *)
From Coq Require Import List Lia Arith Bool Classical_Prop.
Import ListNotations.

Section Protocol.
  Variable participants : list nat.
  Variable colluders : list nat.
  Variable threshold : nat.

  Definition honest (i : nat) : Prop := ~ In i colluders.
  Definition set := list nat.

  (* What honest sites have done: the one set each is bound to, and whether it was opened. *)
  Record state := State { bound : nat -> option set; signed : nat -> set -> Prop; opened : nat -> Prop }.

  Definition allowed (s : state) (i : nat) (m : set) : Prop :=
    threshold <= length m /\ In i m /\ incl m participants /\ (bound s i = None \/ bound s i = Some m).
  (* colluders sign whatever is wanted *)
  Definition certified (s : state) (m : set) : Prop :=
    exists signers, NoDup signers /\ threshold <= length signers /\ incl signers m /\
      forall j, In j signers -> honest j -> signed s j m.

  Definition bind (s : state) (i : nat) (m : set) : nat -> option set :=
    fun j => if Nat.eq_dec j i then Some m else bound s j.

  Inductive step : state -> state -> Prop :=
  | sign_set : forall s i m, honest i -> allowed s i m ->
      step s (State (bind s i m) (fun j n => signed s j n \/ (j = i /\ n = m)) (opened s))
  | unmask : forall s i m, honest i -> allowed s i m -> (incl participants m \/ certified s m) ->
      step s (State (bind s i m) (signed s) (fun j => opened s j \/ j = i)).

  Definition start : state := State (fun _ => None) (fun _ _ => False) (fun _ => False).
  Inductive reachable : state -> Prop :=
  | at_start : reachable start
  | later : forall s t, reachable s -> step s t -> reachable t.

  (* ------------------------------------------------------------------- what the others know *)
  (* i revealed the seed it shares with j, because the coordinator said that j is lost *)
  Definition revealed (s : state) (i j : nat) : Prop :=
    exists m, opened s i /\ bound s i = Some m /\ In j participants /\ ~ In j m.
  Definition pair_known (s : state) (i j : nat) : Prop := revealed s i j \/ revealed s j i.
  (* i gave its share of o's self-mask; colluders give theirs in any case *)
  Definition gave_share (s : state) (i o : nat) : Prop := exists m, opened s i /\ bound s i = Some m /\ In o m.
  Definition self_known (s : state) (o : nat) : Prop :=
    exists holders, NoDup holders /\ threshold <= length holders /\
      forall i, In i holders -> honest i -> gave_share s i o.

  (* A sum that can be computed: honest sites, all self-masks known, and no pair mask to an honest
     site outside that is still unknown. *)
  Record computable (s : state) (T : nat -> Prop) : Prop := Computable {
    all_honest : forall i, T i -> honest i;
    not_empty : exists o, T o;
    self_masks_known : forall o, T o -> self_known s o;
    closed : forall i j, T i -> honest j -> i <> j -> ~ pair_known s i j -> T j;
  }.

  (* ------------------------------------------------------------------------------ invariants *)
  Record good (s : state) : Prop := Good {
    signed_bound : forall i m, honest i -> signed s i m -> bound s i = Some m;
    bound_good : forall i m, honest i -> bound s i = Some m -> In i m /\ incl m participants;
    opened_good : forall i m, honest i -> opened s i -> bound s i = Some m ->
      incl participants m \/ certified s m;
    opened_bound : forall i, honest i -> opened s i -> exists m, bound s i = Some m;
  }.

  Lemma certified_grows : forall b o b' o' (f g : nat -> set -> Prop) m,
    (forall j n, f j n -> g j n) -> certified (State b f o) m -> certified (State b' g o') m.
  Proof.
    intros b o b' o' f g m H [signers [N [L [I S]]]]. exists signers. repeat split; try assumption.
    intros j J K. apply H, (S j J K).
  Qed.

  Lemma good_step : forall s t, good s -> step s t -> good t.
  Proof.
    intros [b f o] t [A B C D] H. simpl in *. inversion H as [s i m Hi [L [I [P W]]] E|s i m Hi [L [I [P W]]] F E]; subst; simpl in *.
    - assert (stable : forall j n, honest j -> b j = Some n -> bind (State b f o) i m j = Some n).
      { intros j n J K. unfold bind. simpl. destruct (Nat.eq_dec j i) as [->|]; [|exact K].
        destruct W as [W|W]; congruence. }
      constructor; simpl.
      + intros j n J [S|[-> ->]]; [apply stable; [exact J|apply A; assumption]|].
        unfold bind. destruct (Nat.eq_dec i i); congruence.
      + intros j n J K. unfold bind in K. simpl in K. destruct (Nat.eq_dec j i) as [->|]; [|apply (B j n J K)].
        injection K as <-. split; assumption.
      + intros j n J O K. destruct (D j J O) as [n' N']. pose proof (stable j n' J N') as S.
        assert (n' = n) by congruence. subst n'. destruct (C j n J O N') as [Q|Q]; [left; exact Q|right].
        eapply certified_grows; [|exact Q]. intros j' n' X. left. exact X.
      + intros j J O. destruct (D j J O) as [n N]. exists n. apply stable; assumption.
    - assert (stable : forall j n, honest j -> b j = Some n -> bind (State b f o) i m j = Some n).
      { intros j n J K. unfold bind. simpl. destruct (Nat.eq_dec j i) as [->|]; [|exact K].
        destruct W as [W|W]; congruence. }
      constructor; simpl.
      + intros j n J S. apply stable; [exact J|apply A; assumption].
      + intros j n J K. unfold bind in K. simpl in K. destruct (Nat.eq_dec j i) as [->|]; [|apply (B j n J K)].
        injection K as <-. split; assumption.
      + intros j n J O K. destruct (Nat.eq_dec j i) as [->|N].
        * unfold bind in K. destruct (Nat.eq_dec i i); [|congruence]. injection K as <-.
          destruct F as [F|F]; [left; exact F|right]. eapply certified_grows; [|exact F]. tauto.
        * destruct O as [O|O]; [|congruence]. unfold bind in K. simpl in K. destruct (Nat.eq_dec j i); [congruence|].
          destruct (C j n J O K) as [Q|Q]; [left; exact Q|right]. eapply certified_grows; [|exact Q]. tauto.
      + intros j J [O|E]; [destruct (D j J O) as [n N]; exists n; apply stable; assumption|subst j].
        exists m. unfold bind. destruct (Nat.eq_dec i i); congruence.
  Qed.

  Lemma always_good : forall s, reachable s -> good s.
  Proof.
    intros s H. induction H as [|s t R IH St]; [|apply (good_step s t IH St)].
    constructor; simpl; try tauto; intros; discriminate.
  Qed.

  Theorem one_set_a_round : forall s i m n, reachable s -> honest i -> signed s i m -> signed s i n -> m = n.
  Proof.
    intros s i m n R H A B. pose proof (always_good s R) as [S _ _ _].
    pose proof (S i m H A). pose proof (S i n H B). congruence.
  Qed.

  (* ---------------------------------------------------------------------------- the theorem *)
  Definition is_colluder (i : nat) : bool := if in_dec Nat.eq_dec i colluders then true else false.

  Lemma enough_honest : forall l, NoDup l -> threshold <= length l ->
    exists h, NoDup h /\ threshold - length colluders <= length h /\
      forall i, In i h -> In i l /\ honest i.
  Proof.
    intros l N L. exists (filter (fun i => negb (is_colluder i)) l). split; [apply NoDup_filter, N|]. split.
    - assert (E : length (filter is_colluder l) + length (filter (fun i => negb (is_colluder i)) l) = length l).
      { clear. induction l as [|a l IH]; simpl; [reflexivity|]. destruct (is_colluder a); simpl; lia. }
      assert (K : length (filter is_colluder l) <= length colluders).
      { apply NoDup_incl_length; [apply NoDup_filter, N|]. intros i M. apply filter_In in M. destruct M as [_ M].
        unfold is_colluder in M. destruct (in_dec Nat.eq_dec i colluders); [assumption|discriminate M]. }
      lia.
    - intros i M. apply filter_In in M. destruct M as [M H]. split; [exact M|]. unfold honest, is_colluder in *.
      destruct (in_dec Nat.eq_dec i colluders); [discriminate H|assumption].
  Qed.

  (* Whatever they do, each sum they can compute has at least threshold - c honest summands. *)
  Theorem enough_honest_summands : forall s T, reachable s -> computable s T ->
    exists members, NoDup members /\ threshold - length colluders <= length members /\
      forall i, In i members -> T i.
  Proof.
    intros s T R [H [o O] S Cl]. pose proof (always_good s R) as [A B C D].
    destruct (S o O) as [holders [N [L G]]].
    destruct (enough_honest holders N L) as [h [Nh [Lh Hh]]].
    pose proof (H o O) as Ho.
    (* if o revealed the seed of some holder, its own set was certified, and the signers are tied to it *)
    assert (dec : (forall i, In i h -> ~ revealed s o i) \/ (exists i, In i h /\ revealed s o i)).
    { clear - h. induction h as [|i h IH]; [left; intros i []|].
      assert (X : revealed s o i \/ ~ revealed s o i) by (apply Classical_Prop.classic).
      destruct X as [X|X]; [right; exists i; split; [left; reflexivity|exact X]|].
      destruct IH as [IH|[j [J K]]]; [left; intros j [<-|J]; [exact X|apply IH, J]|right; exists j; split; [right; exact J|exact K]]. }
    destruct dec as [none|[i [I [m [op [bd [clamped_part out]]]]]]].
    - exists h. repeat split; [exact Nh|exact Lh|]. intros i I. destruct (Hh i I) as [J Hi].
      destruct (Nat.eq_dec o i) as [<-|ne]; [exact O|].
      apply (Cl o i O Hi ne). intros [K|K]; [apply (none i I K)|].
      destruct K as [m' [op' [bd' [_ out']]]]. destruct (G i J Hi) as [m'' [_ [bd'' in'']]]. congruence.
    - destruct (C o m Ho op bd) as [all|[signers [Ns [Ls [Is Ss]]]]]; [exfalso; apply out, all, clamped_part|].
      destruct (enough_honest signers Ns Ls) as [k [Nk [Lk Hk]]].
      exists k. repeat split; [exact Nk|exact Lk|]. intros j J. destruct (Hk j J) as [J' Hj].
      destruct (Nat.eq_dec o j) as [<-|ne]; [exact O|].
      pose proof (A j m Hj (Ss j J' Hj)) as bj. destruct (B o m Ho bd) as [om _].
      apply (Cl o j O Hj ne). intros [K|K].
      + destruct K as [m' [_ [bd' [_ out']]]]. apply out'. replace m' with m by congruence. apply Is, J'.
      + destruct K as [m' [_ [bd' [_ out']]]]. apply out'. replace m' with m by congruence. exact om.
  Qed.
End Protocol.

(* ----------------------------------------------------------------------- rounds in one exchange
   Pair masks alone, made under the participants that a site was named: its keys are bound to them.
   A site answers once a round, and there is nothing to sign or to open afterwards. *)
Section AtOnce.
  Variables colluders : list nat.
  Variable threshold : nat.
  Notation honest := (honest colluders).

  (* the participants under which each honest site has answered *)
  Definition answers := nat -> option set.

  Inductive answer_step : answers -> answers -> Prop :=
  | answer_once : forall s i p, honest i -> s i = None -> NoDup p -> threshold <= length p -> In i p ->
      answer_step s (fun j => if Nat.eq_dec j i then Some p else s j).
  Inductive answered : answers -> Prop :=
  | no_answers : answered (fun _ => None)
  | one_answer_more : forall s t, answered s -> answer_step s t -> answered t.

  (* A sum that can be computed: no pair mask is left between its sites and another honest site. The
     mask of i towards an honest j under p cancels against that of j under the same p, and nothing
     else. *)
  Record at_once_computable (s : answers) (T : nat -> Prop) : Prop := AtOnceComputable {
    honest_summands : forall i, T i -> honest i /\ exists p, s i = Some p;
    some_summand : exists o, T o;
    masks_cancel : forall i p j, T i -> s i = Some p -> In j p -> honest j -> T j /\ s j = Some p;
  }.

  Lemma answered_good : forall s i p, answered s -> s i = Some p -> NoDup p /\ threshold <= length p /\ In i p.
  Proof.
    intros s i p R. revert i p. induction R as [|s t R IH St]; intros i p E; [discriminate E|].
    destruct St as [s k q Hk N D L I]. destruct (Nat.eq_dec i k) as [->|ne]; [|apply (IH i p E)].
    injection E as <-. repeat split; assumption.
  Qed.

  Theorem enough_honest_summands_at_once : forall s T, answered s -> at_once_computable s T ->
    exists members, NoDup members /\ threshold - length colluders <= length members /\
      forall i, In i members -> T i.
  Proof.
    intros s T R [H [o O] C]. destruct (H o O) as [_ [p P]].
    destruct (answered_good s o p R P) as [N [L _]].
    destruct (enough_honest colluders threshold p N L) as [h [Nh [Lh Hh]]].
    exists h. repeat split; [exact Nh|exact Lh|]. intros i I. destruct (Hh i I) as [J K].
    apply (C o p i O P J K).
  Qed.

  (* Two sums that are open share no honest site, unless they are the same: nothing can be
     subtracted. *)
  Definition opened_at_once (s : answers) (p : set) : Prop := forall j, In j p -> honest j -> s j = Some p.
  Theorem opened_sums_are_disjoint : forall s p q i, opened_at_once s p -> opened_at_once s q ->
    honest i -> In i p -> In i q -> p = q.
  Proof. intros s p q i P Q H I J. pose proof (P i I H). pose proof (Q i J H). congruence. Qed.
End AtOnce.

(* ------------------------------------------------------------------------------------- witnesses
   After a restart inside a round in two exchanges, a site cannot know what it did before. It signs
   or opens a set only with w = participants - threshold + c + 1 witnesses, each of whom is bound to
   that set. Whoever opened another set before counts threshold - c honest sites: too few are left. *)
Section Witnesses.
  Variables participants colluders : list nat.
  Variable threshold : nat.
  Notation honest := (honest colluders).

  Variable bound_to : nat -> set.         (* of every honest site that has signed, opened or witnessed *)

  (* members of `old` are bound to one set, witnesses of the second set to another: one site is bound
     to one set for good, so no honest site is in both. *)
  Theorem no_second_set_by_witnesses : forall first second old witnesses,
    NoDup old -> incl old participants -> threshold - length colluders <= length old ->
    (forall i, In i old -> honest i /\ bound_to i = first) ->
    NoDup witnesses -> incl witnesses participants ->
    length participants - threshold + length colluders + 1 <= length witnesses ->
    length colluders < threshold -> threshold <= length participants ->
    (forall i, In i witnesses -> honest i -> bound_to i = second) ->
    first = second.
  Proof.
    intros first second old witnesses No Io Lo Ho Nw Iw Lw C T Hw.
    destruct (list_eq_dec Nat.eq_dec first second) as [E|E]; [exact E|exfalso].
    assert (D : forall i, In i old -> ~ In i witnesses).
    { intros i O W. destruct (Ho i O) as [Hi Bi]. apply E. rewrite <- Bi. apply (Hw i W Hi). }
    assert (N : NoDup (old ++ witnesses)).
    { clear - No Nw D. induction No as [|a old A No IH]; simpl; [exact Nw|]. constructor.
      - intro X. apply in_app_iff in X. destruct X as [X|X]; [apply (A X)|apply (D a (or_introl eq_refl) X)].
      - apply IH. intros i I. apply D. right. exact I. }
    assert (L : length (old ++ witnesses) <= length participants).
    { apply NoDup_incl_length; [exact N|]. intros i I. apply in_app_iff in I. destruct I; auto. }
    rewrite app_length in L. lia.
  Qed.
End Witnesses.
