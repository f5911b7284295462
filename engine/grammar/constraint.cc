#include "engine/grammar/constraint.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/grammar/schema_compiler.h"

namespace spillway::grammar {

absl::StatusOr<std::shared_ptr<Constraint>> Constraint::Make(Grammar grammar,
                                                             std::shared_ptr<const TokenTrie> trie) {
  std::shared_ptr<Constraint> constraint(new Constraint(std::move(grammar), std::move(trie)));
  // The first mask now: what cannot be used is refused before anything runs.
  SPILLWAY_ASSIGN_OR_RETURN(const TokenMask mask, ConstraintState(constraint).Mask());
  for (const uint8_t byte : *mask) {
    if (byte != 0) return constraint;
  }
  return InvalidArgument("no token of the vocabulary can begin such an answer");
}

absl::StatusOr<std::shared_ptr<Constraint>> Constraint::FromSchema(const nlohmann::ordered_json& schema,
                                                                   std::shared_ptr<const TokenTrie> trie) {
  SPILLWAY_ASSIGN_OR_RETURN(Grammar grammar, CompileSchema(schema));
  return Make(std::move(grammar), std::move(trie));
}

bool Constraint::usable() {
  const std::lock_guard lock(mutex_);
  return automaton_.error().ok();
}

ConstraintState::ConstraintState(std::shared_ptr<Constraint> constraint)
    : constraint_(std::move(constraint)) {
  const std::lock_guard lock(constraint_->mutex_);
  epoch_ = constraint_->epoch_;
  at_ = constraint_->automaton_.Start();
  saved_ = constraint_->automaton_.Save(at_);
}

Automaton::Configuration ConstraintState::Current() {
  Automaton& automaton = constraint_->automaton_;
  if (automaton.ForgetIfLarge()) ++constraint_->epoch_;
  if (epoch_ != constraint_->epoch_) {
    epoch_ = constraint_->epoch_;
    at_ = automaton.Restore(saved_);
  }
  return at_;
}

absl::StatusOr<TokenMask> ConstraintState::Mask() {
  const std::lock_guard lock(constraint_->mutex_);
  const Automaton::Configuration at = Current();
  if (at == Automaton::kDead) {
    SPILLWAY_RETURN_IF_ERROR(constraint_->automaton_.error());
    return Internal("the constraint has no way on");
  }
  return constraint_->automaton_.Mask(at);
}

bool ConstraintState::Advance(int32_t token) {
  const std::lock_guard lock(constraint_->mutex_);
  Automaton::Configuration at = Current();
  if (at == Automaton::kDead || ended_) return false;
  if (constraint_->trie_->IsStop(token)) {
    ended_ = constraint_->automaton_.Accepting(at);
    return ended_;
  }
  constraint_->automaton_.Renew();
  const std::string_view bytes = constraint_->trie_->Bytes(token);
  for (const char byte : bytes) at = constraint_->automaton_.Next(at, static_cast<uint8_t>(byte));
  if (bytes.empty() || at == Automaton::kDead) return false;
  at_ = at;
  saved_ = constraint_->automaton_.Save(at);
  return true;
}

bool ConstraintState::Accepting() {
  const std::lock_guard lock(constraint_->mutex_);
  const Automaton::Configuration at = Current();
  return at != Automaton::kDead && constraint_->automaton_.Accepting(at);
}

bool ConstraintState::Complete() {
  const std::lock_guard lock(constraint_->mutex_);
  const Automaton::Configuration at = Current();
  return at != Automaton::kDead && constraint_->automaton_.Accepting(at) &&
         !constraint_->automaton_.CanGoOn(at);
}

}  // namespace spillway::grammar
