(* Permute-and-flip (McKenna and Sheldon 2020), as `permute_and_flip` draws it: in a random order,
   keep a candidate with probability exp(-c gap); a best one is never turned down.

   Probability of r by the algorithm's own recursion = q_r times the integral over t in [0, 1] of
   prod (1 - t q_j) = the integral over s in [0, 1] of prod (1 - s w_j)^+, w_j = exp(c (u_j - u_r)).
   In the last form the ratio is seen at once. *)
From Coq Require Import Reals ZArith List Lia Lra Arith.
From Coquelicot Require Import Coquelicot.
From Hedgerow Require Import Selection.
Import ListNotations.
Open Scope R_scope.

(* ---------------------------------------------------------------------- products and integrals *)
Fixpoint prod (q : list R) (t : R) : R :=
  match q with [] => 1 | a :: r => (1 - t * a) * prod r t end.
Definition integral (q : list R) : R := RInt (prod q) 0 1.

(* sum over the entries of q of f(entry, the others) *)
Fixpoint over_others (f : R -> list R -> R) (seen q : list R) : R :=
  match q with [] => 0 | a :: r => f a (rev_append seen r) + over_others f (a :: seen) r end.

Lemma prod_rev_append : forall x y t, prod (rev_append x y) t = prod x t * prod y t.
Proof. induction x as [|a x IH]; intros y t; simpl; [ring|]. rewrite IH. simpl. ring. Qed.

(* the derivative of prod *)
Fixpoint dprod (q : list R) (t : R) : R :=
  match q with [] => 0 | a :: r => - a * prod r t + (1 - t * a) * dprod r t end.

Lemma prod_derive : forall q t, is_derive (prod q) t (dprod q t).
Proof.
  induction q as [|a q IH]; intro t; simpl.
  - apply (is_derive_const (V := R_NormedModule) 1 t).
  - evar_last.
    + apply (is_derive_mult (fun t => 1 - t * a) (prod q) t (- a) (dprod q t)).
      * auto_derive; [exact Logic.I|ring].
      * apply IH.
      * intros n m. apply Rmult_comm.
    + unfold plus, mult; simpl. ring.
Qed.

Lemma prod_continuous : forall q t, continuous (prod q) t.
Proof. intros q t. apply (ex_derive_continuous (prod q) t). exists (dprod q t). apply prod_derive. Qed.

Lemma prod_integrable : forall q a b, ex_RInt (prod q) a b.
Proof. intros q a b. apply (ex_RInt_continuous (V := R_CompleteNormedModule)). intros t _. apply prod_continuous. Qed.

(* t prod' = sum over j of (prod - prod without j); prod' = - sum over j of q_j prod without j *)
Lemma dprod_sum : forall q seen t,
  prod seen t * dprod q t = - over_others (fun a l => a * prod l t) seen q.
Proof.
  induction q as [|a q IH]; intros seen t; simpl; [ring|].
  rewrite prod_rev_append.
  specialize (IH (a :: seen) t). simpl in IH.
  replace (prod seen t * (- a * prod q t + (1 - t * a) * dprod q t))
    with (- (a * (prod seen t * prod q t)) + (1 - t * a) * prod seen t * dprod q t) by ring.
  rewrite IH. ring.
Qed.

Lemma RInt_over : forall (f : R -> R) q seen,
  is_RInt (fun t => over_others (fun a l => f a * prod l t) seen q) 0 1
          (over_others (fun a l => f a * integral l) seen q).
Proof.
  intros f q. induction q as [|a q IH]; intro seen; simpl.
  - evar_last; [apply (is_RInt_const (V := R_NormedModule))|]. unfold scal; simpl; unfold mult; simpl. ring.
  - apply (is_RInt_plus (V := R_NormedModule)); [|apply IH].
    apply (is_RInt_scal (V := R_NormedModule)). apply (RInt_correct (V := R_CompleteNormedModule)), prod_integrable.
Qed.

(* Somebody is kept unless all are turned down: sum q_j I(others) = 1 - prod (1 - q_j). *)
Lemma kept_or_not : forall q, over_others (fun a l => a * integral l) [] q = 1 - prod q 1.
Proof.
  intro q.
  assert (A : is_RInt (dprod q) 0 1 (prod q 1 - prod q 0)).
  { apply (is_RInt_derive (V := R_CompleteNormedModule) (prod q) (dprod q)).
    - intros t _. apply prod_derive.
    - intros t _. apply (continuous_ext (fun t => - over_others (fun a l => a * prod l t) [] q)).
      + intro s. rewrite <- dprod_sum. simpl. ring.
      + apply (continuous_opp (V := R_NormedModule)). clear.
        generalize (@nil R). induction q as [|a q IH]; intro seen; simpl; [apply continuous_const|].
        apply (continuous_plus (V := R_NormedModule)); [|apply IH].
        apply (continuous_scal_r (V := R_NormedModule)). apply prod_continuous. }
  assert (B : is_RInt (dprod q) 0 1 (- over_others (fun a l => a * integral l) [] q)).
  { apply (is_RInt_ext (fun t => - over_others (fun a l => a * prod l t) [] q)).
    - intros t _. rewrite <- dprod_sum. simpl. ring.
    - apply (is_RInt_opp (V := R_NormedModule)). apply (RInt_over (fun a => a)). }
  apply (is_RInt_unique (V := R_CompleteNormedModule)) in A.
  apply (is_RInt_unique (V := R_CompleteNormedModule)) in B. rewrite A in B.
  assert (Z : forall l, prod l 0 = 1) by (induction l as [|a l IH]; simpl; [reflexivity|rewrite IH; ring]).
  rewrite Z in B. lra.
Qed.

Lemma t_dprod : forall q seen t,
  t * (prod seen t * dprod q t) =
  INR (length q) * (prod seen t * prod q t) - over_others (fun a l => 1 * prod l t) seen q.
Proof.
  induction q as [|a q IH]; intros seen t.
  - simpl. ring.
  - change (length (a :: q)) with (S (length q)). rewrite S_INR. specialize (IH (a :: seen) t).
    simpl in IH |- *. rewrite prod_rev_append.
    replace (t * (prod seen t * (- a * prod q t + (1 - t * a) * dprod q t)))
      with (- t * a * prod seen t * prod q t + t * ((1 - t * a) * prod seen t * dprod q t)) by ring.
    rewrite IH. ring.
Qed.

Lemma dprod_continuous : forall q t, continuous (dprod q) t.
Proof.
  intros q t. apply (continuous_ext (fun t => - over_others (fun a l => a * prod l t) [] q)).
  - intro s. rewrite <- dprod_sum. simpl. ring.
  - apply (continuous_opp (V := R_NormedModule)).
    generalize (@nil R). induction q as [|a q IH]; intro seen; simpl; [apply continuous_const|].
    apply (continuous_plus (V := R_NormedModule)); [|apply IH].
    apply (continuous_scal_r (V := R_NormedModule)). apply prod_continuous.
Qed.

Lemma by_parts : forall q,
  (INR (length q) + 1) * integral q = prod q 1 + over_others (fun a l => 1 * integral l) [] q.
Proof.
  intro q.
  assert (A : is_RInt (fun t => prod q t + t * dprod q t) 0 1 (1 * prod q 1 - 0 * prod q 0)).
  { apply (is_RInt_derive (V := R_CompleteNormedModule) (fun t => t * prod q t)).
    - intros t _. evar_last.
      + apply (is_derive_mult (fun t => t) (prod q) t 1 (dprod q t)).
        * apply (is_derive_id (K := R_AbsRing)).
        * apply prod_derive.
        * intros n m. apply Rmult_comm.
      + unfold plus, mult; simpl. ring.
    - intros t _. apply (continuous_plus (V := R_NormedModule)); [apply prod_continuous|].
      apply (continuous_mult (K := R_AbsRing)); [apply continuous_id|apply dprod_continuous]. }
  assert (B : is_RInt (fun t => prod q t + t * dprod q t) 0 1
                ((INR (length q) + 1) * integral q - over_others (fun a l => 1 * integral l) [] q)).
  { apply (is_RInt_ext (fun t => (INR (length q) + 1) * prod q t - over_others (fun a l => 1 * prod l t) [] q)).
    - intros t _. pose proof (t_dprod q [] t) as E. simpl prod at 1 2 in E. rewrite !Rmult_1_l in E.
      match goal with |- ?a = ?b => change (@eq R a b) end. lra.
    - apply (is_RInt_minus (V := R_NormedModule)); [|apply (RInt_over (fun _ => 1))].
      apply (is_RInt_scal (V := R_NormedModule)). apply (RInt_correct (V := R_CompleteNormedModule)), prod_integrable. }
  apply (is_RInt_unique (V := R_CompleteNormedModule)) in A.
  apply (is_RInt_unique (V := R_CompleteNormedModule)) in B. rewrite A in B. lra.
Qed.

(* ------------------------------------------------------------------------------ the algorithm *)
(* The probability that r, kept with probability qr when it is drawn, is returned while the others
   wait with it: one of all is drawn, and one that is turned down waits no more. *)
Fixpoint returned (n : nat) (qr : R) (others : list R) : R :=
  match n with
  | O => qr
  | S n' => (qr + over_others (fun a rest => (1 - a) * returned n' qr rest) [] others)
            / (INR (length others) + 1)
  end.

Lemma over_others_ext : forall f g n q seen, (length q + length seen = S n)%nat ->
  (forall a l, length l = n -> f a l = g a l) -> over_others f seen q = over_others g seen q.
Proof.
  intros f g n q. induction q as [|a q IH]; intros seen L H; simpl; [reflexivity|].
  rewrite H, (IH (a :: seen)); [reflexivity|simpl in *; lia|exact H|].
  rewrite rev_append_rev, app_length, rev_length. simpl in L. lia.
Qed.

Lemma over_others_minus : forall f g q seen,
  over_others (fun a l => f a l - g a l) seen q = over_others f seen q - over_others g seen q.
Proof. intros f g q. induction q as [|a q IH]; intro seen; simpl; [ring|]. rewrite IH. ring. Qed.

Lemma over_others_mult : forall c f q seen,
  over_others (fun a l => c * f a l) seen q = c * over_others f seen q.
Proof. intros c f q. induction q as [|a q IH]; intro seen; simpl; [ring|]. rewrite IH. ring. Qed.

Theorem returned_is : forall n qr q, length q = n -> returned n qr q = qr * integral q.
Proof.
  induction n as [|n IH]; intros qr q L.
  - destruct q; [|discriminate L]. simpl. unfold integral. simpl.
    rewrite (RInt_const (V := R_CompleteNormedModule)). unfold scal; simpl; unfold mult; simpl. ring.
  - cbn [returned].
    rewrite (over_others_ext _ (fun a l => qr * (1 * integral l - a * integral l)) n); [|simpl; lia|].
    + rewrite over_others_mult, over_others_minus, kept_or_not.
      pose proof (by_parts q) as E.
      assert (P : 0 < INR (length q) + 1) by (pose proof (pos_INR (length q)); lra).
      apply (Rmult_eq_reg_r (INR (length q) + 1)); [|lra].
      unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
      replace (qr * integral q * (INR (length q) + 1)) with (qr * ((INR (length q) + 1) * integral q)) by ring.
      rewrite E. ring.
    + intros a l K. rewrite (IH qr l K). ring.
Qed.

(* ---------------------------------------------------------------------------------- the ratio *)
Lemma scaled : forall qr w, qr * integral (map (fun a => qr * a) w) = RInt (prod w) 0 qr.
Proof.
  intros qr w.
  assert (P : forall t, prod (map (fun a => qr * a) w) t = prod w (qr * t + 0)).
  { intro t. induction w as [|a w IH]; simpl; [reflexivity|]. rewrite IH. ring. }
  pose proof (RInt_comp_lin (V := R_CompleteNormedModule) (prod w) qr 0 0 1) as E.
  rewrite Rmult_0_r, Rmult_1_r, !Rplus_0_r in E. rewrite <- E by apply prod_integrable.
  unfold integral. rewrite <- (RInt_scal (V := R_CompleteNormedModule)) by apply prod_integrable.
  apply (RInt_ext (V := R_CompleteNormedModule)). intros t _. unfold scal; simpl; unfold mult; simpl.
  rewrite P. reflexivity.
Qed.

Lemma prod_le : forall lambda w w' s, 0 <= s ->
  Forall2 (fun a b => b <= lambda * a) w w' -> List.Forall (fun a => lambda * s * a <= 1) w ->
  0 <= prod w (lambda * s) <= prod w' s.
Proof.
  intros lambda w w' s S H. induction H as [|a b w w' E H IH]; intro F; simpl; [lra|].
  inversion F as [|? ? A F']; subst. specialize (IH F').
  assert (0 <= 1 - lambda * s * a <= 1 - s * b) by (split; nra). split; [nra|].
  apply Rmult_le_compat; lra.
Qed.

Lemma prod_nonneg : forall w s, List.Forall (fun a => s * a <= 1) w -> 0 <= prod w s.
Proof. intros w s H. induction H; simpl; [lra|]. nra. Qed.

Theorem integral_ratio : forall lambda w w' q q',
  1 <= lambda -> 0 <= q -> q <= lambda * q' ->
  Forall2 (fun a b => b <= lambda * a) w w' ->
  List.Forall (fun a => 0 <= a /\ q * a <= 1) w -> List.Forall (fun b => 0 <= b /\ q' * b <= 1) w' ->
  RInt (prod w) 0 q <= lambda * RInt (prod w') 0 q'.
Proof.
  intros lambda w w' q q' L Q QQ H F F'.
  set (e := q / lambda).
  assert (E : lambda * e = q) by (unfold e; field; lra).
  assert (E0 : 0 <= e) by (unfold e; apply Rmult_le_pos; [lra|left; apply Rinv_0_lt_compat; lra]).
  assert (EQ : e <= q') by nra.
  pose proof (RInt_comp_lin (V := R_CompleteNormedModule) (prod w) lambda 0 0 e) as C.
  rewrite Rmult_0_r, !Rplus_0_r, E in C. rewrite <- C by apply prod_integrable. clear C.
  assert (J : ex_RInt (fun y => lambda * prod w (lambda * y + 0)) 0 e).
  { apply (ex_RInt_continuous (V := R_CompleteNormedModule)). intros z _.
    apply (continuous_scal_r (V := R_NormedModule) lambda).
    apply (continuous_comp (fun y => lambda * y + 0) (prod w)); [|apply prod_continuous].
    apply (ex_derive_continuous (fun y => lambda * y + 0)). auto_derive. exact Logic.I. }
  apply Rle_trans with (RInt (fun y => lambda * prod w' y) 0 e).
  - apply RInt_le; [exact E0|exact J| |].
    + apply (ex_RInt_scal (V := R_NormedModule) (prod w') 0 e lambda), prod_integrable.
    + intros s [S1 S2]. unfold scal; simpl; unfold mult; simpl. rewrite Rplus_0_r.
      apply Rmult_le_compat_l; [lra|]. apply prod_le; [lra|exact H|].
      clear - F S1 S2 E L. induction F as [|a w A F IH]; constructor; [|exact IH].
      destruct A as [A1 A2]. assert (lambda * s <= q) by nra. nra.
  - replace (RInt (fun y => lambda * prod w' y) 0 e) with (lambda * RInt (prod w') 0 e).
    2:{ symmetry. apply (RInt_scal (V := R_CompleteNormedModule)), prod_integrable. }
    apply Rmult_le_compat_l; [lra|].
    rewrite <- (RInt_Chasles (V := R_CompleteNormedModule) (prod w') 0 e q') by apply prod_integrable.
    unfold plus; simpl.
    assert (0 <= RInt (prod w') e q'); [|lra].
    apply RInt_ge_0; [exact EQ|apply prod_integrable|].
    intros s [S1 S2]. apply prod_nonneg. clear - F' S1 S2 E0.
    induction F' as [|b w' B F' IH]; constructor; [|exact IH]. destruct B. nra.
Qed.

(* -------------------------------------------------------------------------- integer scores *)
Fixpoint without (u : list Z) (i : nat) : list Z :=
  match u, i with [], _ => [] | _ :: r, O => r | a :: r, S i' => a :: without r i' end.
Definition best (u : list Z) : Z := match u with [] => 0%Z | a :: r => fold_right Z.max a r end.
Definition keep (c : R) (u : list Z) (a : Z) : R := exp (- c * IZR (best u - a)).

Definition permute_and_flip (c : R) (u : list Z) (i : nat) : R :=
  match nth_error u i with
  | Some a => returned (length (without u i)) (keep c u a) (map (keep c u) (without u i))
  | None => 0
  end.

Lemma best_ge : forall u a, In a u -> (a <= best u)%Z.
Proof.
  intros [|b r] a H; [destruct H|]. simpl. destruct H as [->|H].
  - induction r; simpl; lia.
  - induction r as [|d r IH]; simpl in *; [tauto|]. destruct H as [->|H]; [|specialize (IH H)]; lia.
Qed.

Lemma best_moved : forall low range u u', moved low range u u' -> u <> [] ->
  (best u' - best u <= low + range)%Z.
Proof.
  intros low range u u' H N. inversion H as [|a b r r' E H']; subst; [congruence|]. simpl. clear N H.
  induction H' as [|x y r r' F H' IH]; simpl; lia.
Qed.

Lemma without_in : forall u i a, In a (without u i) -> In a u.
Proof.
  induction u as [|b u IH]; intros [|i] a H; simpl in *; try tauto.
  destruct H as [H|H]; [tauto|right; apply (IH i), H].
Qed.

Lemma without_moved : forall low range u u' i, moved low range u u' -> moved low range (without u i) (without u' i).
Proof.
  intros low range u u' i H. revert i. induction H as [|a b u u' E H IH]; intros [|i]; simpl.
  - constructor.
  - constructor.
  - exact H.
  - constructor; [exact E|apply IH].
Qed.

(* The probability as an integral. *)
Lemma as_integral : forall c u i a, nth_error u i = Some a ->
  permute_and_flip c u i = RInt (prod (map (fun b => exp (c * IZR (b - a))) (without u i))) 0 (keep c u a).
Proof.
  intros c u i a N. unfold permute_and_flip. rewrite N.
  rewrite (returned_is (length (without u i))) by apply map_length.
  rewrite <- scaled. f_equal. f_equal. rewrite map_map. apply map_ext. intro b. unfold keep.
  rewrite <- exp_plus. f_equal. rewrite !minus_IZR. ring.
Qed.

Lemma in_range : forall c u i a, 0 <= c -> nth_error u i = Some a ->
  List.Forall (fun w => 0 <= w /\ keep c u a * w <= 1) (map (fun b => exp (c * IZR (b - a))) (without u i)).
Proof.
  intros c u i a pos N. apply List.Forall_forall. intros w W. apply in_map_iff in W. destruct W as [b [<- B]].
  apply without_in, best_ge in B. split; [left; apply exp_pos|].
  unfold keep. rewrite <- exp_plus, <- exp_0. apply exp_le. rewrite <- Ropp_mult_distr_l.
  apply IZR_le in B. rewrite !minus_IZR. nra.
Qed.

Theorem permute_and_flip_ratio : forall c low range u u' i, 0 <= c -> (0 <= range)%Z -> moved low range u u' ->
  permute_and_flip c u i <= exp (c * IZR range) * permute_and_flip c u' i.
Proof.
  intros c low range u u' i pos r H.
  destruct (nth_error u i) as [a|] eqn:N.
  - destruct (nth_moved _ _ _ _ _ _ H N) as [a' [N' E]].
    rewrite (as_integral c u i a N), (as_integral c u' i a' N').
    apply integral_ratio.
    + rewrite <- exp_0. apply exp_le. apply IZR_le in r. nra.
    + left. apply exp_pos.
    + unfold keep. rewrite <- exp_plus. apply exp_le.
      assert (U : u <> []) by (intro; subst; destruct i; discriminate N).
      pose proof (best_moved _ _ _ _ H U) as B. rewrite <- !Ropp_mult_distr_l.
      assert (D : (best u' - a' <= best u - a + range)%Z) by lia.
      apply IZR_le in D. rewrite plus_IZR in D. nra.
    + pose proof (without_moved _ _ _ _ i H) as W. induction W as [|x y v v' F W IH]; simpl; constructor; [|exact IH].
      rewrite <- exp_plus. apply exp_le. rewrite <- Rmult_plus_distr_l, <- plus_IZR.
      apply Rmult_le_compat_l; [exact pos|]. apply IZR_le. lia.
    + apply in_range; assumption.
    + apply in_range; assumption.
  - unfold permute_and_flip at 1. rewrite N.
    unfold permute_and_flip. destruct (nth_error u' i) as [b|] eqn:N'; [|lra].
    destruct (nth_moved _ _ _ _ _ _ (moved_back _ _ _ _ H) N') as [a [N'' _]]. congruence.
Qed.

Lemma permute_and_flip_nonneg : forall c u i, 0 <= c -> 0 <= permute_and_flip c u i.
Proof.
  intros c u i pos. destruct (nth_error u i) as [a|] eqn:N; [|unfold permute_and_flip; rewrite N; lra].
  rewrite (as_integral c u i a N). apply RInt_ge_0; [left; apply exp_pos|apply prod_integrable|].
  intros s [S1 S2]. apply prod_nonneg. pose proof (in_range c u i a pos N) as F.
  induction F as [|w ws W F IH]; constructor; [|exact IH]. destruct W. nra.
Qed.

Definition PermuteAndFlip : mechanism :=
  Mechanism permute_and_flip permute_and_flip_nonneg permute_and_flip_ratio.
