#include "engine/grammar/constraint_compiler.h"

#include <algorithm>

#include "engine/base/status.h"

namespace spillway::grammar {
namespace {
constexpr size_t kKept = 8;
}

absl::StatusOr<std::shared_ptr<Constraint>> ConstraintCompiler::Compile(
    const nlohmann::ordered_json& schema) {
  std::string text = schema.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  {
    const std::lock_guard lock(mutex_);
    const auto known =
        std::find_if(kept_.begin(), kept_.end(), [&](const auto& e) { return e.first == text; });
    if (known != kept_.end() && known->second->usable()) return known->second;
  }
  // Without the lock: a schema may take its time.
  SPILLWAY_ASSIGN_OR_RETURN(auto constraint, Constraint::FromSchema(schema, trie_.get()));
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [&](const auto& e) { return e.first == text; });
  kept_.emplace_front(std::move(text), constraint);
  if (kept_.size() > kKept) kept_.pop_back();
  return constraint;
}

}  // namespace spillway::grammar
