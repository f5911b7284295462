// The schema compiler's working state: the schema, the grammar so far, the first error. schema_compiler.cc
// has references, combinations and choices of types, schema_values.cc what each type becomes.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema_merge.h"

namespace spillway::grammar {

// Builds once. Errors are sticky: after one every function returns quickly what nobody looks at.
class SchemaBuilder {
 public:
  explicit SchemaBuilder(const Schema& root) : root_(root) {}
  absl::StatusOr<Grammar> Build();

 private:
  using Node = uint32_t;
  // A schema and where it stands, for messages: "#/properties/a".
  struct Place {
    const Schema& schema;
    std::string path;
    int depth = 0;
    Place At(const Schema& inner, std::string_view key) const {
      return {inner, path + "/" + std::string(key), depth + 1};
    }
  };

  // schema_compiler.cc
  Node Compile(const Place& place);
  Node CompileObject(const Place& place);  // a schema that is no boolean
  Node CompileReference(const std::string& pointer, const Place& place);
  Node CompileBranches(const Place& place, const char* keyword);
  Node CompileValues(const Place& place);  // enum and const
  Node CompileTypes(const Place& place);
  Node CompileType(const std::string& type, const Place& place);
  bool CheckKeywords(const Place& place);
  bool CheckDisjoint(const std::vector<Schema>& branches, const Place& place);
  // Without $ref and allOf at its top.
  absl::StatusOr<Schema> Flatten(const Schema& schema, const Place& place, int depth);
  const Schema* Resolve(const std::string& pointer);
  void Fail(const Place& place, std::string_view keyword, std::string_view what);
  void Adopt(const Place& place, std::string_view keyword, const absl::Status& status);

  // schema_values.cc
  Node AnyValue();
  Node Object(const Place& place);
  Node Members(const Place& place, const std::vector<std::pair<std::string, Node>>& properties,
               const std::vector<bool>& required, Node additional);
  Node AdditionalMember(const Place& place, const std::vector<std::string>& names);
  Node Array(const Place& place);
  Node String(const Place& place);
  Node Integer(const Place& place);
  Node Number(const Place& place);
  Node FreeString();
  Node Literal(std::string_view text);
  Node Space();
  Node FromDfa(absl::StatusOr<Dfa> dfa, const Place& place, std::string_view keyword);
  Node FromRegex(std::string_view pattern, const Place& place);  // plain, of our own
  // A count such as minItems; `fallback` where absent. Fails for what is none.
  uint32_t Count(const Place& place, const char* keyword, uint32_t fallback);
  // Bounds of numbers as multiples of 10^-digits, exclusive ones moved inwards.
  struct Bounds {
    bool any = false;
    bool fits = true;
    int64_t low = 0, high = 0;
  };
  Bounds NumberBounds(const Place& place, int digits, int64_t limit);

  const Schema& root_;
  Grammar grammar_;
  absl::Status error_;
  absl::flat_hash_map<std::string, Node> references_;
  absl::flat_hash_map<std::string, Node> shared_;  // nodes used again and again, by name
  size_t compiled_ = 0;
  size_t merged_ = 0;
  size_t patterns_ = 0;
  size_t states_ = 0;
};

}  // namespace spillway::grammar
