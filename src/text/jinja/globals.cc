// The functions that every template can call.
#include <ctime>

#include "base/strings.h"
#include "text/jinja/compare.h"
#include "text/jinja/native.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace lamina::jinja {
namespace {

Result<Value> cycler(Runtime& runtime, const Value&, const Bound& arguments) {
  if (arguments.all.positional.empty()) return error("cycler() needs items");
  return Value(runtime.heap().make<Cycler>(runtime.heap().copy(arguments.all.positional)));
}

Result<Value> joiner(Runtime& runtime, const Value&, const Bound& arguments) {
  return Value(runtime.heap().make<Joiner>(arguments.has(0) ? arguments.value(0) : runtime.text(", ")));
}

Result<Value> lipsum(Runtime&, const Value&, const Bound&) { return error("lipsum() is not supported"); }

/// The entries of dict(...): of a dict or of pairs, then the named arguments.
Result<std::vector<Dict::Entry>> entries_of(Runtime& runtime, const Arguments& arguments) {
  std::vector<Dict::Entry> entries;
  if (arguments.positional.size() > 1) return error("a dict is made of at most one value and named ones");
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (const Dict* dict = source.dict()) {
      entries.assign(dict->entries.begin(), dict->entries.end());
    } else {
      LAMINA_ASSIGN(const std::span<const Value> pairs, elements(runtime, source));
      for (const Value& pair : pairs) {
        LAMINA_ASSIGN(const std::span<const Value> parts, elements(runtime, pair));
        if (parts.size() != 2) return error("a dict is made of pairs, not of ", parts.size(), " elements");
        entries.push_back({parts[0], parts[1]});
      }
    }
  }
  for (const NamedArgument& named : arguments.named) entries.push_back({runtime.text(named.name), named.value});
  return entries;
}

Result<Value> dict(Runtime& runtime, const Value&, const Bound& arguments) {
  LAMINA_ASSIGN(std::vector<Dict::Entry> entries, entries_of(runtime, arguments.all));
  return runtime.dict(std::move(entries));
}

Result<Value> make_namespace(Runtime& runtime, const Value&, const Bound& arguments) {
  LAMINA_ASSIGN(std::vector<Dict::Entry> entries, entries_of(runtime, arguments.all));
  Namespace* made = runtime.heap().make<Namespace>(runtime.heap());
  LAMINA_ASSIGN(const Value unique, runtime.dict(std::move(entries)));
  for (const Dict::Entry& entry : unique.dict()->entries) {
    LAMINA_ASSIGN(const Text* name, text_of(entry.key));
    made->attributes.emplace_back(name->bytes, entry.value);
  }
  return Value(made);
}

Result<Value> range(Runtime& runtime, const Value&, const Bound& arguments) {
  for (int i = 0; i < 3; ++i)
    if (arguments.has(i) && arguments.value(i).is_undefined()) return undefined_error(arguments.value(i));
  LAMINA_ASSIGN(const int64_t first, integer_of(arguments.value(0)));
  Range made{0, first, 1};
  if (arguments.has(1)) {
    made.start = first;
    LAMINA_ASSIGN(made.stop, integer_of(arguments.value(1)));
  }
  if (arguments.has(2)) {
    LAMINA_ASSIGN(made.step, integer_of(arguments.value(2)));
  }
  if (made.step == 0) return error("range() with a step of 0");
  constexpr int64_t kFar = int64_t{1} << 61;  // beyond it the arithmetic of ranges would overflow
  for (const int64_t end : {made.start, made.stop, made.step})
    if (end > kFar || end < -kFar) return error("range() of numbers that are too large");
  if (made.size() > kMaxRange) return error("range() of more than ", kMaxRange, " elements");
  return Value(static_cast<const Range*>(runtime.heap().make<Range>(made)));
}

Result<Value> raise_exception(Runtime& runtime, const Value&, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* message, to_text(runtime, arguments.value(0)));
  return error(message->bytes);
}

/// strftime() of a time without zone and fractions, in English.
std::string formatted_time(std::string_view format, const std::tm& time) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const size_t begin = i++;
    if (format[i] == '-' && i + 1 < format.size()) ++i;  // glibc: no padding
    if (format[i] == 'f') out += "000000";
    if (format[i] == 'f' || format[i] == 'z' || format[i] == 'Z') continue;
    char text[128];
    const std::string directive(format.substr(begin, i - begin + 1));
    out.append(text, std::strftime(text, sizeof text, directive.c_str(), &time));
  }
  return out;
}

Result<Value> strftime_now(Runtime& runtime, const Value&, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* format, text_of(arguments.value(0)));
  runtime.work_bytes(64 * format->bytes.size());
  return runtime.copied(formatted_time(format->bytes, runtime.now()));
}

constexpr Native kFunctions[] = {
    {"cycler", cycler, kAnyArguments},
    {"dict", dict, kAnyArguments},
    {"joiner", joiner, 0, {"sep"}},
    {"lipsum", lipsum, kAnyArguments},
    {"namespace", make_namespace, kAnyArguments},
    {"raise_exception", raise_exception, 1, {"message"}},
    {"range", range, 1, {"start", "stop", "step"}},
    {"strftime_now", strftime_now, 1, {"format"}},
};

}  // namespace

std::span<const Native> global_functions() { return kFunctions; }

bool is_raise_exception(const Native& native) { return native.run == raise_exception; }

}  // namespace lamina::jinja
