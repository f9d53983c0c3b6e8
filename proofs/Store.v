(* Charge before release, over crashes, restarts and files from yesterday: federation/site_store.py,
   docs/proofs/ledger.md section 5.

   The file is a list of entries, oldest first. A transaction writes one entry whole or not at all
   (SQLite's guarantee, an assumption here). The anchor lies outside the file; it is written after
   the commit and before anything is sent. *)
From Coq Require Import ZArith List Lia Arith Bool.
Import ListNotations.

Section Store.
  Variables request message member_set : Type.
  Variable cost : nat -> Z.                 (* of a round, from the study and what it asks *)
  Variable cap : Z.

  Inductive entry :=
  | Charged (round : nat) (asked : request) (reply : message)
  | Opened (round : nat) (members : member_set).

  (* What the process is doing; lost in a crash. The coins of a reply are drawn on the way. *)
  Inductive work :=
  | Idle
  | Taken (round : nat) (asked : request)
  | Reserved (round : nat) (asked : request)                     (* checked against the cap *)
  | Computed (round : nat) (asked : request) (reply : message)   (* rows and noise: any message *)
  | Committed (e : entry)
  | Anchored (e : entry).

  Inductive sent := Reply (round : nat) (m : message) | SignedSet (round : nat) (s : member_set).

  Record state := State { file : list entry; anchor : nat; doing : option work; wire : list sent }.
  (* doing = None: the process is down *)

  Definition charge_of (e : entry) : Z := match e with Charged r _ _ => cost r | Opened _ _ => 0 end.
  Fixpoint spent (es : list entry) : Z := match es with [] => 0 | e :: r => charge_of e + spent r end.
  Definition is_charge (r : nat) (e : entry) : Prop := exists q m, e = Charged r q m.
  Definition is_set (r : nat) (e : entry) : Prop := exists s, e = Opened r s.
  Definition message_of (e : entry) : sent :=
    match e with Charged r _ m => Reply r m | Opened r s => SignedSet r s end.
  Definition in_step (s : state) : Prop := anchor s <= length (file s).

  Inductive step : state -> state -> Prop :=
  | take_up : forall f a w r q, step (State f a (Some Idle) w) (State f a (Some (Taken r q)) w)
  | reserve : forall f a w r q, (spent f + cost r <= cap)%Z -> (forall e, In e f -> ~ is_charge r e) ->
      step (State f a (Some (Taken r q)) w) (State f a (Some (Reserved r q)) w)
  | compute : forall f a w r q m,
      step (State f a (Some (Reserved r q)) w) (State f a (Some (Computed r q m)) w)
  | commit : forall f a w r q m, a <= length f ->
      step (State f a (Some (Computed r q m)) w)
           (State (f ++ [Charged r q m]) a (Some (Committed (Charged r q m))) w)
  | commit_set : forall f a w r s, a <= length f ->
      (exists e, In e f /\ is_charge r e) -> (forall e, In e f -> ~ is_set r e) ->
      step (State f a (Some Idle) w) (State (f ++ [Opened r s]) a (Some (Committed (Opened r s))) w)
  | write_anchor : forall f a w e,
      step (State f a (Some (Committed e)) w) (State f (length f) (Some (Anchored e)) w)
  | send : forall f a w e, step (State f a (Some (Anchored e)) w) (State f a (Some Idle) (message_of e :: w))
  (* Asked again: the stored bytes, whatever was asked, if the file is not older than the anchor. *)
  | send_again : forall f a w e, a <= length f -> In e f ->
      step (State f a (Some Idle) w) (State f a (Some (Committed e)) w)
  | refuse : forall f a w d, step (State f a (Some d) w) (State f a (Some Idle) w)
  | crash : forall f a d w, step (State f a d w) (State f a None w)
  | restart : forall f a w, step (State f a None w) (State f a (Some Idle) w)
  (* Somebody brings back an older copy of the file, but not of the anchor. *)
  | roll_back : forall f a d w k, step (State f a d w) (State (firstn k f) a None w).

  Inductive reachable : state -> Prop :=
  | start : reachable (State [] 0 None [])
  | next : forall s s', reachable s -> step s s' -> reachable s'.

  (* ------------------------------------------------------------------------------ invariants *)
  Definition same_round (e e' : entry) : Prop :=
    match e, e' with
    | Charged r _ _, Charged r' _ _ => r = r'
    | Opened r _, Opened r' _ => r = r'
    | _, _ => False
    end.
  (* No two entries of the file speak for one round. *)
  Fixpoint single (es : list entry) : Prop :=
    match es with [] => True | e :: r => (forall e', In e' r -> ~ same_round e e') /\ single r end.

  Definition working (s : state) : Prop :=
    match doing s with
    | Some (Reserved r _) | Some (Computed r _ _) =>
        (spent (file s) + cost r <= cap)%Z /\ forall e, In e (file s) -> ~ is_charge r e
    | Some (Committed e) => anchor s <= length (file s) /\ In e (file s)
    | Some (Anchored e) => anchor s = length (file s) /\ In e (file s)
    | _ => True
    end.

  Record good (s : state) : Prop := Good {
    file_single : single (file s);
    within_cap : (spent (file s) <= cap)%Z;
    work_good : working s;
    (* while the file is as long as the anchor says, all that left is in its first `anchor` entries *)
    sent_kept : anchor s <= length (file s) ->
      forall x, In x (wire s) -> exists e, In e (firstn (anchor s) (file s)) /\ message_of e = x;
    one_reply : forall r m m', In (Reply r m) (wire s) -> In (Reply r m') (wire s) -> m = m';
    one_set : forall r x y, In (SignedSet r x) (wire s) -> In (SignedSet r y) (wire s) -> x = y;
  }.

  Lemma single_app : forall es e, single es -> (forall e', In e' es -> ~ same_round e' e) -> single (es ++ [e]).
  Proof.
    induction es as [|a es IH]; intros e S H; simpl in *; [split; [tauto|exact I]|].
    destruct S as [S1 S2]. split.
    - intros e' M. apply in_app_iff in M. destruct M as [M|[<-|[]]]; [apply S1, M|apply H; left; reflexivity].
    - apply IH; [exact S2|]. intros e' M. apply H. right. exact M.
  Qed.

  Lemma single_firstn : forall es k, single es -> single (firstn k es).
  Proof.
    induction es as [|a es IH]; intros [|k] S; simpl in *; try exact I.
    destruct S as [S1 S2]. split; [|apply IH, S2]. intros e' M. apply S1.
    clear - M. revert k M. induction es as [|b es IH]; intros [|k] M; simpl in *; try tauto.
    destruct M as [M|M]; [tauto|right; apply (IH k), M].
  Qed.

  Lemma single_same : forall es e e', single es -> In e es -> In e' es -> same_round e e' -> e = e'.
  Proof.
    induction es as [|a es IH]; intros e e' S M M' R; simpl in *; [tauto|].
    destruct S as [S1 S2], M as [<-|M], M' as [<-|M']; try reflexivity.
    - exfalso. apply (S1 e' M' R).
    - exfalso. apply (S1 e M). destruct a, e; simpl in *; congruence.
    - apply IH; assumption.
  Qed.

  Lemma spent_app : forall es e, spent (es ++ [e]) = (spent es + charge_of e)%Z.
  Proof. induction es as [|a es IH]; intro e; simpl; [lia|]. rewrite IH. lia. Qed.

  Hypothesis cost_nonneg : forall r, (0 <= cost r)%Z.
  Hypothesis cap_nonneg : (0 <= cap)%Z.

  Lemma spent_firstn : forall es k, (spent (firstn k es) <= spent es)%Z.
  Proof.
    assert (P : forall es, (0 <= spent es)%Z).
    { induction es as [|e es IH]; simpl; [lia|]. destruct e; simpl; [pose proof (cost_nonneg round)|]; lia. }
    induction es as [|e es IH]; intros [|k]; simpl; try lia.
    - pose proof (P (e :: es)) as Q. simpl in Q. lia.
    - specialize (IH k). lia.
  Qed.

  Lemma firstn_in : forall (es : list entry) k e, In e (firstn k es) -> In e es.
  Proof.
    induction es as [|a es IH]; intros [|k] e M; simpl in *; try tauto.
    destruct M as [M|M]; [tauto|right; apply (IH k), M].
  Qed.

  Lemma good_step : forall s s', good s -> step s s' -> good s'.
  Proof.
    intros s s' [S C W K O T] H.
    destruct H; unfold working in W; simpl in *; (constructor; unfold working; simpl in *);
      try assumption; try exact I; try tauto.
    - (* commit: single *) apply single_app; [exact S|]. destruct W as [_ W]. intros e' M R.
      destruct e' as [r' q' m'|]; simpl in R; [subst r'|exact R]. apply (W _ M). exists q', m'. reflexivity.
    - (* commit: cap *) destruct W as [W _]. rewrite spent_app. simpl in *. lia.
    - (* commit: work *) rewrite app_length. simpl. split; [lia|].
      apply in_app_iff. right. left. reflexivity.
    - (* commit: kept *) intros _ x X. destruct (K H x X) as [e [M E]]. exists e. split; [|exact E].
      rewrite firstn_app. apply in_app_iff. left. exact M.
    - (* commit_set: single *) apply single_app; [exact S|]. intros e' M R.
      destruct e' as [|r' s']; simpl in R; [exact R|subst r']. apply (H1 _ M). exists s'. reflexivity.
    - rewrite spent_app. simpl. lia.
    - rewrite app_length. simpl. split; [lia|].
      apply in_app_iff. right. left. reflexivity.
    - intros _ x X. destruct (K H x X) as [e [M E]]. exists e. split; [|exact E].
      rewrite firstn_app. apply in_app_iff. left. exact M.
    - (* write_anchor *) intros _ x X. destruct W as [W1 W2]. destruct (K W1 x X) as [e' [M E]]. exists e'. split; [|exact E].
      rewrite firstn_all. apply (firstn_in _ _ _ M).
    - (* send: kept *) destruct W as [-> W]. intros _ x [<-|X].
      + exists e. rewrite firstn_all. split; [exact W|reflexivity].
      + apply K; [lia|exact X].
    - (* send: one reply *) destruct W as [-> W].
      assert (A : forall r m, In (Reply r m) (message_of e :: w) -> exists q, In (Charged r q m) f).
      { intros r m [E|X].
        - destruct e as [r' q' m'|]; simpl in E; [|discriminate E]. injection E as -> ->. exists q'. exact W.
        - destruct (K (le_n _) _ X) as [e' [M E]]. rewrite firstn_all in M.
          destruct e' as [r' q' m'|]; simpl in E; [|discriminate E]. injection E as -> ->. exists q'. exact M. }
      intros r m m' X X'. destruct (A r m X) as [q M], (A r m' X') as [q' M'].
      pose proof (single_same f _ _ S M M' eq_refl) as E. congruence.
    - (* send: one set *) destruct W as [-> W].
      assert (A : forall r x, In (SignedSet r x) (message_of e :: w) -> In (Opened r x) f).
      { intros r x [E|X].
        - destruct e as [|r' s']; simpl in E; [discriminate E|]. injection E as -> ->. exact W.
        - destruct (K (le_n _) _ X) as [e' [M E]]. rewrite firstn_all in M.
          destruct e' as [|r' s']; simpl in E; [discriminate E|]. injection E as -> ->. exact M. }
      intros r x y X Y. pose proof (single_same f _ _ S (A r x X) (A r y Y) eq_refl) as E. congruence.
    - (* roll_back *) apply single_firstn, S.
    - pose proof (spent_firstn f k). lia.
    - intros L x X. rewrite firstn_length in L.
      destruct (K ltac:(lia) x X) as [e [M E]]. exists e. split; [|exact E].
      rewrite firstn_firstn. replace (Nat.min a k) with a by lia. exact M.
  Qed.

  Theorem always_good : forall s, reachable s -> good s.
  Proof.
    intros s H. induction H as [|s s' R IH St]; [|apply (good_step s s' IH St)].
    constructor; simpl; try exact I; try tauto; try assumption.
  Qed.

  (* In words. *)
  Theorem no_reply_without_a_durable_charge : forall s r m, reachable s -> in_step s ->
    In (Reply r m) (wire s) -> exists q, In (Charged r q m) (file s).
  Proof.
    intros s r m R L X. destruct (sent_kept s (always_good s R) L _ X) as [e [M E]].
    apply firstn_in in M. destruct e as [r' q m'|]; simpl in E; [|discriminate E].
    injection E as -> ->. exists q. exact M.
  Qed.
  Theorem no_second_reply_with_other_noise : forall s r m m', reachable s ->
    In (Reply r m) (wire s) -> In (Reply r m') (wire s) -> m = m'.
  Proof. intros s r m m' R. apply (one_reply s (always_good s R)). Qed.
  Theorem no_second_set : forall s r x y, reachable s ->
    In (SignedSet r x) (wire s) -> In (SignedSet r y) (wire s) -> x = y.
  Proof. intros s r x y R. apply (one_set s (always_good s R)). Qed.
  Theorem never_beyond_the_cap : forall s, reachable s -> (spent (file s) <= cap)%Z.
  Proof. intros s R. apply (within_cap s (always_good s R)). Qed.

  (* A file older than the anchor says nothing more, whatever is asked of it, for ever. *)
  Definition mute (s : state) : Prop :=
    length (file s) < anchor s /\ match doing s with Some (Committed _) | Some (Anchored _) => False | _ => True end.
  Inductive steps : state -> state -> Prop :=
  | stay : forall s, steps s s
  | go : forall s t u, steps s t -> step t u -> steps s u.
  Theorem an_old_file_is_silent : forall s t, mute s -> steps s t -> mute t /\ wire t = wire s.
  Proof.
    intros s t H P. induction P as [|s t u P IH St]; [tauto|].
    destruct (IH H) as [[L D] W]. rewrite <- W. clear IH W P H.
    destruct St; unfold mute in *; simpl in *; try tauto; try lia.
    rewrite firstn_length. split; [split; [lia|exact I]|reflexivity].
  Qed.

  (* ------------------------------------------------------------- negative control: the order is needed *)
  (* The same machine that may also send before the anchor is written. *)
  Inductive hasty : state -> state -> Prop :=
  | as_before : forall s t, step s t -> hasty s t
  | send_early : forall f a w e, hasty (State f a (Some (Committed e)) w) (State f a (Some Idle) (message_of e :: w)).
  Inductive reachable_hastily : state -> Prop :=
  | hasty_start : reachable_hastily (State [] 0 None [])
  | hasty_next : forall s t, reachable_hastily s -> hasty s t -> reachable_hastily t.

  Theorem hasty_sends_twice : forall (q : request) m m', (cost 0 <= cap)%Z ->
    exists s, reachable_hastily s /\ In (Reply 0 m) (wire s) /\ In (Reply 0 m') (wire s).
  Proof.
    intros q m m' affordable.
    assert (C : (spent [] + cost 0 <= cap)%Z) by (simpl; lia).
    assert (N : forall e, In e [] -> ~ is_charge 0 e) by (intros e []).
    assert (round : forall w m, reachable_hastily (State [] 0 None w) ->
              reachable_hastily (State [Charged 0 q m] 0 (Some Idle) (Reply 0 m :: w))).
    { intros w x H.
      eapply hasty_next; [|apply (send_early _ _ _ (Charged 0 q x))].
      eapply hasty_next; [|apply as_before, (commit []); simpl; lia].
      eapply hasty_next; [|apply as_before, compute].
      eapply hasty_next; [|apply as_before, reserve; [exact C|exact N]].
      eapply hasty_next; [|apply as_before, take_up].
      eapply hasty_next; [exact H|apply as_before, restart]. }
    exists (State [Charged 0 q m'] 0 (Some Idle) [Reply 0 m'; Reply 0 m]).
    split; [apply round|simpl; tauto].
    eapply hasty_next; [apply (round [] m), hasty_start|].
    apply as_before. apply (roll_back [Charged 0 q m] 0 (Some Idle) [Reply 0 m] 0).
  Qed.

  (* And the machine is not empty: a charged reply can leave. *)
  Theorem something_leaves : forall (q : request) m, (cost 0 <= cap)%Z ->
    exists s, reachable s /\ In (Reply 0 m) (wire s).
  Proof.
    intros q m affordable. exists (State [Charged 0 q m] 1 (Some Idle) [Reply 0 m]).
    split; [|simpl; tauto].
    eapply next; [|apply (send [Charged 0 q m] 1 [] (Charged 0 q m))].
    eapply next; [|apply (write_anchor [Charged 0 q m] 0)].
    eapply next; [|apply (commit [] 0 [] 0 q m); simpl; lia].
    eapply next; [|apply compute].
    eapply next; [|apply reserve; [simpl; lia|intros e []]].
    eapply next; [|apply take_up].
    eapply next; [apply start|apply restart].
  Qed.
  (* ------------------------------------------------------------------------------- real traces
     What the real store does, event by event (proofs/replay.py): `after` is a function, and a trace that it
     takes to the end is one of `step`. *)
  Inductive event :=
  | Take (round : nat) (asked : request) | Reserve | Compute (reply : message) | Commit
  | CommitSet (round : nat) (members : member_set) | WriteAnchor | Send | Again (place : nat)
  | Refuse | Crash | Restart | RollBack (kept : nat).

  Definition charges_round (r : nat) (e : entry) : bool :=
    match e with Charged r' _ _ => r =? r' | Opened _ _ => false end.
  Definition opens_round (r : nat) (e : entry) : bool :=
    match e with Charged _ _ _ => false | Opened r' _ => r =? r' end.

  Definition after (s : state) (v : event) : option state :=
    let '(State f a d w) := s in
    match v, d with
    | Take r q, Some Idle => Some (State f a (Some (Taken r q)) w)
    | Reserve, Some (Taken r q) =>
        if ((spent f + cost r <=? cap)%Z && negb (existsb (charges_round r) f))%bool
        then Some (State f a (Some (Reserved r q)) w) else None
    | Compute m, Some (Reserved r q) => Some (State f a (Some (Computed r q m)) w)
    | Commit, Some (Computed r q m) =>
        if a <=? length f then Some (State (f ++ [Charged r q m]) a (Some (Committed (Charged r q m))) w) else None
    | CommitSet r x, Some Idle =>
        if ((a <=? length f) && existsb (charges_round r) f && negb (existsb (opens_round r) f))%bool
        then Some (State (f ++ [Opened r x]) a (Some (Committed (Opened r x))) w) else None
    | WriteAnchor, Some (Committed e) => Some (State f (length f) (Some (Anchored e)) w)
    | Send, Some (Anchored e) => Some (State f a (Some Idle) (message_of e :: w))
    | Again k, Some Idle =>
        match nth_error f k with
        | Some e => if a <=? length f then Some (State f a (Some (Committed e)) w) else None
        | None => None
        end
    | Refuse, Some _ => Some (State f a (Some Idle) w)
    | Crash, _ => Some (State f a None w)
    | Restart, None => Some (State f a (Some Idle) w)
    | RollBack k, _ => Some (State (firstn k f) a None w)
    | _, _ => None
    end.

  Fixpoint replayed (s : state) (trace : list event) : option state :=
    match trace with
    | [] => Some s
    | v :: rest => match after s v with Some s' => replayed s' rest | None => None end
    end.

  Lemma no_such_charge : forall r f, existsb (charges_round r) f = false -> forall e, In e f -> ~ is_charge r e.
  Proof.
    intros r f N e M [q [m E]]. assert (existsb (charges_round r) f = true); [|congruence].
    apply existsb_exists. exists e. split; [exact M|]. subst e. simpl. apply Nat.eqb_refl.
  Qed.

  Lemma no_such_set : forall r f, existsb (opens_round r) f = false -> forall e, In e f -> ~ is_set r e.
  Proof.
    intros r f N e M [x E]. assert (existsb (opens_round r) f = true); [|congruence].
    apply existsb_exists. exists e. split; [exact M|]. subst e. simpl. apply Nat.eqb_refl.
  Qed.

  Lemma such_a_charge : forall r f, existsb (charges_round r) f = true -> exists e, In e f /\ is_charge r e.
  Proof.
    intros r f E. apply existsb_exists in E. destruct E as [e [M C]]. exists e. split; [exact M|].
    destruct e as [r' q m|]; [|discriminate]. apply Nat.eqb_eq in C. subst r'. exists q, m. reflexivity.
  Qed.

  Lemma after_is_a_step : forall s v s', after s v = Some s' -> step s s'.
  Proof.
    intros [f a d w] v s' E. destruct v; simpl in E.
    all: try (destruct d as [[]|]; try discriminate).
    all: try (injection E as <-; constructor).
    - destruct (_ && _)%bool eqn:G in E; [|discriminate]. injection E as <-.
      apply andb_true_iff in G. destruct G as [G N]. apply Z.leb_le in G. apply negb_true_iff in N.
      constructor; [exact G|apply no_such_charge, N].
    - destruct (a <=? length f) eqn:G in E; [|discriminate]. injection E as <-. apply Nat.leb_le in G. constructor. exact G.
    - destruct (_ && _)%bool eqn:G in E; [|discriminate]. injection E as <-.
      apply andb_true_iff in G. destruct G as [G N]. apply andb_true_iff in G. destruct G as [G C].
      apply Nat.leb_le in G. apply negb_true_iff in N.
      constructor; [exact G|apply such_a_charge, C|apply no_such_set, N].
    - destruct (nth_error f place) as [e|] eqn:At; [|discriminate].
      destruct (a <=? length f) eqn:G in E; [|discriminate]. injection E as <-. apply Nat.leb_le in G.
      constructor; [exact G|apply nth_error_In in At; exact At].
  Qed.

  Theorem replayed_traces_are_reachable : forall trace s s',
    reachable s -> replayed s trace = Some s' -> reachable s'.
  Proof.
    induction trace as [|v rest IH]; intros s s' R E; simpl in E; [injection E as <-; exact R|].
    destruct (after s v) as [s1|] eqn:A; [|discriminate].
    apply (IH s1); [apply (next s s1 R), after_is_a_step with v, A|exact E].
  Qed.
End Store.
