// What templates find ready: filters, tests, methods of strings and dicts, global functions, operators and
// the ways into a value. Each is named in a table of its file. An unknown name is an error that says it.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/value.h"

namespace spillway::jinja {

Value ApplyFilter(Context& context, std::string_view name, const Value& input, const Arguments& arguments);
bool HasFilter(std::string_view name);
bool ApplyTest(Context& context, std::string_view name, const Value& input, const Arguments& arguments);
Value CallMethod(Context& context, const Method& method, const Arguments& arguments);
bool HasMethod(const Value& self, std::string_view name);
void AddGlobalFunctions(absl::flat_hash_map<std::string, Value>& names);

// op: + - * / // % **
Value ApplyBinary(Context& context, std::string_view op, const Value& left, const Value& right);
Value Negate(Context& context, const Value& value);
// op: == != < <= > >= in "not in"
bool ApplyComparison(Context& context, std::string_view op, const Value& left, const Value& right);

// value.name and value[key], each falling back to the other as Jinja does; undefined where neither is there.
// Fails for what is in an undefined value.
Value GetAttribute(Context& context, const Value& value, std::string_view name);
Value GetItem(Context& context, const Value& value, const Value& key);
// value[start:stop:step]; an undefined or none bound is an absent one.
Value GetSlice(Context& context, const Value& value, const Value& start, const Value& stop,
               const Value& step);

// Arguments by the parameters' names, undefined where not given. Fails for too many and for unknown names.
std::vector<Value> Bind(Context& context, std::string_view callee, const Arguments& arguments,
                        std::initializer_list<std::string_view> parameters);

// Python's datetime.strftime for a UTC time without zone.
std::string FormatTime(Context& context, std::string_view format, int64_t unix_seconds);

}  // namespace spillway::jinja
