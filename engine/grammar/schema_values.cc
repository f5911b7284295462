// What values of each type look like as JSON text. White space is what models write between tokens, bounded:
// nothing, one space, or a new line with its indentation.
#include <algorithm>
#include <cmath>

#include "engine/base/status.h"
#include "engine/grammar/number_range.h"
#include "engine/grammar/schema_builder.h"
#include "engine/grammar/schema_compiler.h"

namespace spillway::grammar {
namespace {

// Text of a JSON string: surrogates in escapes come in pairs.
constexpr char kCharacter[] =
    R"((?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:[0-9a-cA-Ce-fE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})|)"
    R"(u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))";
// Every string in one way of writing it, so that names can be compared.
constexpr char kPlainCharacter[] = R"((?:[^"\\\x00-\x1f]|\\["\\bfnrt]))";
constexpr char kInteger[] = "^-?(?:0|[1-9][0-9]{0,15})$";
constexpr char kNumber[] = "^-?(?:0|[1-9][0-9]{0,15})(?:\\.[0-9]{1,16})?(?:[eE][+-]?[0-9]{1,2})?$";
constexpr char kSpace[] = "^(?: |\\n[ \\t]{0,32})?$";

// Each a part of what the format allows, chosen so that every validator accepts it.
constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date",
     R"(^[1-9]\d{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)$)"},
    {"time", R"(^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$)"},
    {"date-time",
     R"(^[1-9]\d{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$)"},
    {"duration", R"(^P(?:\d{1,4}D(?:T\d{1,4}[HMS])?|\d{1,4}[YMW]|T\d{1,4}[HMS])$)"},
    {"email",
     R"(^[A-Za-z0-9_+-]{1,32}(?:\.[A-Za-z0-9_+-]{1,32}){0,3}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?\.){1,4}[A-Za-z]{2,12}$)"},
    {"hostname",
     R"(^[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?){0,4}$)"},
    {"ipv4", R"(^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$)"},
    {"ipv6", R"(^(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}$)"},
    {"uri",
     R"(^[a-z][a-z0-9+.-]{1,15}://[A-Za-z0-9](?:[A-Za-z0-9.-]{0,60}[A-Za-z0-9])?(?::\d{1,4})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*(?:\?[A-Za-z0-9._~!$&'()*+,;=:@/?-]*)?$)"},
    {"uuid", R"(^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$)"},
};

std::string JsonText(const Schema& value) {
  return value.dump(-1, ' ', false, Schema::error_handler_t::replace);
}

// The insides of JSON strings that hold exactly these names.
absl::StatusOr<Dfa> ExactTexts(const std::vector<std::string>& names) {
  Nfa nfa;
  const uint32_t begin = nfa.AddState();
  const uint32_t end = nfa.AddState();
  for (const std::string& name : names) {
    const std::string quoted = JsonText(Schema(name));
    uint32_t at = begin;
    for (const char c : std::string_view(quoted).substr(1, quoted.size() - 2)) {
      const uint32_t next = nfa.AddState();
      nfa.AddEdge(at, static_cast<uint8_t>(c), static_cast<uint8_t>(c), next);
      at = next;
    }
    nfa.AddEmpty(at, end);
  }
  return BuildDfa(nfa, {begin, end});
}

// With a quote at both ends.
absl::StatusOr<Dfa> Quoted(const absl::StatusOr<Dfa>& inside) {
  if (!inside.ok() || inside->empty()) return inside;
  Dfa quoted;
  const auto size = static_cast<uint16_t>(inside->next.size());
  // State 0 waits for the first quote, state i + 1 is i, the last one follows the second quote.
  quoted.next.emplace_back().fill(Dfa::kDead);
  quoted.next[0]['"'] = 1;
  for (const auto& row : inside->next) {
    auto& shifted = quoted.next.emplace_back();
    std::transform(row.begin(), row.end(), shifted.begin(),
                   [](uint16_t to) { return to == Dfa::kDead ? Dfa::kDead : static_cast<uint16_t>(to + 1); });
  }
  for (size_t i = 0; i < size; ++i) {
    if (inside->accepting[i]) quoted.next[i + 1]['"'] = static_cast<uint16_t>(size + 1);
  }
  quoted.next.emplace_back().fill(Dfa::kDead);
  quoted.accepting.assign(size + 2, false);
  quoted.accepting[size + 1] = true;
  return quoted;
}

}  // namespace

SchemaBuilder::Node SchemaBuilder::FromDfa(absl::StatusOr<Dfa> dfa, const Place& place,
                                           std::string_view keyword) {
  if (!dfa.ok()) {
    Adopt(place, keyword, dfa.status());
    return 0;
  }
  states_ += dfa->next.size();
  if (states_ > kMaxAutomatonStates)
    Fail(place, keyword, fmt::format("takes the schema past {} automaton states", kMaxAutomatonStates));
  return grammar_.AddDfa(*std::move(dfa));
}

SchemaBuilder::Node SchemaBuilder::FromRegex(std::string_view pattern, const Place& place) {
  const auto [position, added] = shared_.try_emplace(std::string(pattern), 0);
  if (!added) return position->second;
  const Node node = FromDfa(CompileRegex(pattern, RegexText::kPlain), place, "type");
  shared_[std::string(pattern)] = node;
  return node;
}

SchemaBuilder::Node SchemaBuilder::Literal(std::string_view text) {
  const auto [position, added] = shared_.try_emplace("literal " + std::string(text), 0);
  if (added) position->second = grammar_.AddLiteral(std::string(text));
  return position->second;
}

SchemaBuilder::Node SchemaBuilder::Space() { return FromRegex(kSpace, {root_, "#"}); }

SchemaBuilder::Node SchemaBuilder::FreeString() {
  static const std::string pattern = std::string("^\"") + kCharacter + "*\"$";
  return FromRegex(pattern, {root_, "#"});
}

SchemaBuilder::Node SchemaBuilder::AnyValue() {
  if (const auto known = shared_.find("any"); known != shared_.end()) return known->second;
  const Node any = grammar_.AddPlaceholder();
  shared_.emplace("any", any);
  const Place place = {root_, "#"};
  const Node comma = grammar_.AddSequence({Literal(","), Space()});
  const auto list = [&](Node item) {
    const Node more = grammar_.AddRepeat(grammar_.AddSequence({comma, item}), 0, Grammar::kUnbounded);
    return grammar_.AddOptional(grammar_.AddSequence({item, more, Space()}));
  };
  const Node member = grammar_.AddSequence({FreeString(), Literal(":"), Space(), any});
  const Node object = grammar_.AddSequence({Literal("{"), Space(), list(member), Literal("}")});
  const Node array = grammar_.AddSequence({Literal("["), Space(), list(any), Literal("]")});
  shared_.emplace("any object", object);
  grammar_.Fill(any, grammar_.AddChoice({FreeString(), FromRegex(kNumber, place), object, array,
                                         Literal("true"), Literal("false"), Literal("null")}));
  return any;
}

uint32_t SchemaBuilder::Count(const Place& place, const char* keyword, uint32_t fallback) {
  const auto value = place.schema.find(keyword);
  if (value == place.schema.end()) return fallback;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (number < 0 || number != std::floor(number) || number > 1e9) {
    Fail(place, keyword, "is no count between 0 and 1000000000");
    return fallback;
  }
  return static_cast<uint32_t>(number);
}

SchemaBuilder::Node SchemaBuilder::Object(const Place& place) {
  const Schema& schema = place.schema;
  const auto properties = schema.find("properties");
  const auto required_list = schema.find("required");
  const auto additional = schema.find("additionalProperties");
  if (properties != schema.end() && !properties->is_object()) Fail(place, "properties", "is no object");
  if (required_list != schema.end() && !required_list->is_array()) Fail(place, "required", "is no list");
  if (!error_.ok()) return 0;
  std::vector<std::string> names;
  if (properties != schema.end()) {
    for (const auto& item : properties->items()) names.push_back(item.key());
  }
  const bool has_properties = !names.empty();
  std::vector<std::string> wanted;
  for (const Schema& name : required_list == schema.end() ? Schema::array() : *required_list) {
    if (!name.is_string()) Fail(place, "required", "holds what is no name");
    if (!error_.ok()) return 0;
    wanted.push_back(name.get<std::string>());
    if (std::find(names.begin(), names.end(), wanted.back()) == names.end()) names.push_back(wanted.back());
  }
  // Without a word about them, further properties are not written: that is valid whatever the schema allows.
  const Schema open = has_properties || !wanted.empty() ? Schema(false) : Schema(true);
  const Schema& others = additional == schema.end() ? open : *additional;
  const Schema unnamed = additional == schema.end() ? Schema(true) : *additional;
  const Place additional_place = place.At(others, "additionalProperties");

  std::vector<std::pair<std::string, Node>> members;
  std::vector<bool> required;
  const Place list_place = place.At(schema, "properties");
  for (const std::string& name : names) {
    const bool named = properties != schema.end() && properties->contains(name);
    const Node value = named ? Compile(list_place.At((*properties)[name], name))
                             : Compile({unnamed, additional_place.path, additional_place.depth});
    const Node key = Literal(JsonText(Schema(name)) + ":");
    members.emplace_back(name, grammar_.AddSequence({key, Space(), value}));
    required.push_back(std::find(wanted.begin(), wanted.end(), name) != wanted.end());
    if (!error_.ok()) return 0;
  }
  Node extra = Grammar::kUnbounded;
  if (others != false) {
    if (others == true && members.empty() && !schema.contains("maxProperties") &&
        !schema.contains("minProperties")) {
      AnyValue();
      return shared_.at("any object");
    }
    const Node key = AdditionalMember(place, names);
    extra = grammar_.AddSequence({key, Literal(":"), Space(), Compile(additional_place)});
  }
  return grammar_.AddSequence(
      {Literal("{"), Space(), Members(place, members, required, extra), Literal("}")});
}

// A name that is none of these, written without \u escapes so that it cannot be one of them in disguise.
SchemaBuilder::Node SchemaBuilder::AdditionalMember(const Place& place,
                                                    const std::vector<std::string>& names) {
  absl::StatusOr<Dfa> inside = CompileRegex(std::string("^") + kPlainCharacter + "*$", RegexText::kPlain);
  const absl::StatusOr<Dfa> taken = ExactTexts(names);
  if (inside.ok()) inside = taken.ok() ? Subtract(*inside, *taken) : taken;
  return FromDfa(Quoted(inside), place, "additionalProperties");
}

// In the schema's order; what is optional may be left out; then the additional ones. From the back, twice:
// for what stands first and for what stands behind another.
SchemaBuilder::Node SchemaBuilder::Members(const Place& place,
                                           const std::vector<std::pair<std::string, Node>>& properties,
                                           const std::vector<bool>& required, Node additional) {
  const auto n_required = static_cast<uint32_t>(std::count(required.begin(), required.end(), true));
  const uint32_t least = Count(place, "minProperties", 0);
  const uint32_t most = Count(place, "maxProperties", Grammar::kUnbounded);
  const bool has_additional = additional != Grammar::kUnbounded;
  // Additional names may repeat each other, which counts once: only one of them is sure to count.
  if (least > n_required && !(least == 1 && properties.empty() && has_additional))
    Fail(place, "minProperties", "is supported up to the number of required properties, or 1 for a map");
  const bool bounded = most != Grammar::kUnbounded && (has_additional || most < properties.size());
  if (bounded && !properties.empty()) Fail(place, "maxProperties", "is supported for maps only");
  if (!error_.ok()) return 0;
  const Node comma = grammar_.AddSequence({Literal(","), Space()});
  const Node end = Space();
  Node first = grammar_.AddEmpty();  // the rest where nothing stands before it
  Node next = end;                   // … and where something does
  if (has_additional) {
    const uint32_t more = most == Grammar::kUnbounded ? most : most - std::min(most, 1u);
    next =
        grammar_.AddSequence({grammar_.AddRepeat(grammar_.AddSequence({comma, additional}), 0, more), end});
    const Node some = grammar_.AddSequence({additional, next});
    first = most == 0 ? first : least > 0 ? some : grammar_.AddOptional(some);
  }
  for (size_t i = properties.size(); i-- > 0;) {
    const Node begun = grammar_.AddSequence({properties[i].second, next});
    const Node continued = grammar_.AddSequence({comma, properties[i].second, next});
    first = required[i] ? begun : grammar_.AddChoice({begun, first});
    next = required[i] ? continued : grammar_.AddChoice({continued, next});
  }
  return first;
}

SchemaBuilder::Node SchemaBuilder::Array(const Place& place) {
  const Schema& schema = place.schema;
  const uint32_t least = Count(place, "minItems", 0);
  const uint32_t most = Count(place, "maxItems", Grammar::kUnbounded);
  const Schema prefix = schema.value("prefixItems", Schema::array());
  const Schema any(true);
  const auto items = schema.find("items");
  if (!prefix.is_array()) Fail(place, "prefixItems", "is no list of schemas");
  if (items != schema.end() && items->is_array()) Fail(place, "items", "is a list: name it prefixItems");
  if (!error_.ok()) return 0;
  const Place item_place = place.At(items == schema.end() ? any : *items, "items");
  const auto fixed = static_cast<uint32_t>(prefix.size());
  const Node comma = grammar_.AddSequence({Literal(","), Space()});
  const Node none = grammar_.AddEmpty();
  const Node never = grammar_.AddChoice({});
  const auto at_least = [](uint32_t count, uint32_t done) { return count > done ? count - done : 0; };
  // The rest behind `done` elements, from the back.
  const Node item = most > fixed ? Compile(item_place) : never;
  const uint32_t more = most == Grammar::kUnbounded ? most : at_least(most, std::max(fixed, 1u));
  Node rest =
      grammar_.AddRepeat(grammar_.AddSequence({comma, item}), at_least(least, std::max(fixed, 1u)), more);
  if (more == 0) rest = least > std::max(fixed, 1u) ? never : none;
  for (uint32_t done = fixed; done-- > 1;) {
    const Node element = Compile(place.At(prefix[done], fmt::format("prefixItems/{}", done)));
    const Node longer = done < most ? grammar_.AddSequence({comma, element, rest}) : never;
    rest = done >= least ? grammar_.AddChoice({longer, none}) : longer;
  }
  const Node head = fixed == 0 ? item : Compile(place.At(prefix[0], "prefixItems/0"));
  Node elements = most == 0 ? never : grammar_.AddSequence({head, rest, Space()});
  if (least == 0) elements = grammar_.AddOptional(elements);
  return grammar_.AddSequence({Literal("["), Space(), elements, Literal("]")});
}

SchemaBuilder::Node SchemaBuilder::String(const Place& place) {
  const Schema& schema = place.schema;
  const uint32_t least = Count(place, "minLength", 0);
  const uint32_t most = Count(place, "maxLength", Grammar::kUnbounded);
  const bool counted = least > 0 || most != Grammar::kUnbounded;
  const auto pattern = schema.find("pattern");
  const auto format = schema.find("format");
  if (pattern == schema.end() && format == schema.end()) {
    if (!counted) return FreeString();
    const Node character = FromRegex(std::string("^") + kCharacter + "$", place);
    if (least > most) return grammar_.AddChoice({});
    const Node body = most == 0 ? grammar_.AddEmpty() : grammar_.AddRepeat(character, least, most);
    return grammar_.AddSequence({Literal("\""), body, Literal("\"")});
  }
  std::vector<std::pair<const char*, std::string>> patterns;
  if (pattern != schema.end()) {
    if (!pattern->is_string()) Fail(place, "pattern", "is no string");
    if (pattern->is_string()) patterns.emplace_back("pattern", pattern->get<std::string>());
  }
  if (format != schema.end()) {
    const std::string name = format->is_string() ? format->get<std::string>() : "";
    const auto* known = std::find_if(std::begin(kFormats), std::end(kFormats),
                                     [&name](const auto& entry) { return entry.first == name; });
    if (known == std::end(kFormats)) {
      Fail(place, "format", fmt::format("is '{}', which is not supported", name.substr(0, 40)));
    } else {
      patterns.emplace_back("format", std::string(known->second));
    }
  }
  if (counted && (least > 1000 || (most != Grammar::kUnbounded && most > 1000)))
    Fail(place, least > 1000 ? "minLength" : "maxLength",
         "is supported up to 1000 beside pattern and format");
  if (!error_.ok()) return 0;
  if (counted) {
    const std::string upper = most == Grammar::kUnbounded ? "" : fmt::to_string(most);
    patterns.emplace_back(least > 0 ? "minLength" : "maxLength", fmt::format("^[^]{{{},{}}}$", least, upper));
  }
  std::string key = "pattern";
  for (const auto& [keyword, text] : patterns) key += fmt::format(" {}:{}", text.size(), text);
  if (const auto known = shared_.find(key); known != shared_.end()) return known->second;
  if (++patterns_ > kMaxPatterns)
    Fail(place, patterns[0].first, fmt::format("is one of more than {} different patterns", kMaxPatterns));
  if (!error_.ok()) return 0;
  absl::StatusOr<Dfa> inside = CompileRegex(patterns[0].second, RegexText::kJsonString);
  for (size_t i = 1; i < patterns.size() && inside.ok(); ++i) {
    const absl::StatusOr<Dfa> other = CompileRegex(patterns[i].second, RegexText::kJsonString);
    inside = other.ok() ? Intersect(*inside, *other) : other;
  }
  const Node node = FromDfa(Quoted(inside), place, patterns[0].first);
  shared_.emplace(std::move(key), node);
  return node;
}

SchemaBuilder::Bounds SchemaBuilder::NumberBounds(const Place& place, int digits, int64_t limit) {
  Bounds bounds = {.low = -limit, .high = limit};
  const double scale = std::pow(10.0, digits);
  for (const char* keyword : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
    const auto value = place.schema.find(keyword);
    if (value == place.schema.end()) continue;
    const bool lower = std::string_view(keyword).find("inimum") != std::string_view::npos;
    const bool exclusive = keyword[0] == 'e';
    if (!value->is_number()) {
      Fail(place, keyword, "is no number");
      return bounds;
    }
    // Where the bound is no multiple of the unit, rounding inwards takes care of exclusive ones, too.
    const double scaled = value->get<double>() * scale;
    const double nearest = std::nearbyint(scaled);
    const bool exact = std::fabs(scaled - nearest) < 1e-6 * std::max(1.0, std::fabs(scaled) * 1e-9);
    bounds.any = true;
    if (std::fabs(scaled) > static_cast<double>(limit)) {
      // A bound beyond what can be written limits nothing, or leaves nothing.
      const bool harmless = (scaled < 0) == lower;
      if (!harmless) bounds.fits = false;
      continue;
    }
    const double inward = exact ? nearest : lower ? std::ceil(scaled) : std::floor(scaled);
    const auto unit = static_cast<int64_t>(inward) + (exact && exclusive ? (lower ? 1 : -1) : 0);
    if (lower) {
      bounds.low = std::max(bounds.low, unit);
    } else {
      bounds.high = std::min(bounds.high, unit);
    }
  }
  return bounds;
}

SchemaBuilder::Node SchemaBuilder::Integer(const Place& place) {
  const Bounds bounds = NumberBounds(place, 0, 999'999'999'999'999);
  const auto multiple = place.schema.find("multipleOf");
  if (!bounds.fits) Fail(place, "minimum", "leaves only integers of more than 15 digits");
  if (!error_.ok()) return 0;
  const bool has_multiple = multiple != place.schema.end();
  if (!bounds.any && !has_multiple) return FromRegex(kInteger, place);
  absl::StatusOr<Dfa> dfa =
      bounds.any ? IntegerRange(bounds.low, bounds.high) : CompileRegex("^-?[0-9]{1,9}$", RegexText::kPlain);
  if (has_multiple) {
    const double divisor = multiple->is_number() ? multiple->get<double>() : 0;
    if (divisor < 1 || divisor > 100 || divisor != std::floor(divisor)) {
      Fail(place, "multipleOf", "is supported for integers from 1 to 100");
      return 0;
    }
    const absl::StatusOr<Dfa> multiples = Multiples(static_cast<uint32_t>(divisor));
    if (dfa.ok() && multiples.ok()) dfa = Intersect(*dfa, *multiples);
  }
  return FromDfa(std::move(dfa), place, has_multiple ? "multipleOf" : "minimum");
}

SchemaBuilder::Node SchemaBuilder::Number(const Place& place) {
  if (place.schema.contains("multipleOf")) Fail(place, "multipleOf", "is supported for type integer only");
  const Bounds bounds = NumberBounds(place, kFractionDigits, 999'999'999'999'999);
  if (!bounds.fits) Fail(place, "minimum", "leaves only numbers of more than 9 digits before the point");
  if (!error_.ok()) return 0;
  if (!bounds.any) return FromRegex(kNumber, place);
  return FromDfa(DecimalRange(bounds.low, bounds.high), place, "minimum");
}

}  // namespace spillway::grammar
