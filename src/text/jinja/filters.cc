#include "text/jinja/filters.h"

#include "text/jinja/operators.h"

namespace lamina::jinja {
namespace {

Result<Value> filter_attr(Runtime& runtime, const Value& self, const Bound& arguments) {
  LAMINA_ASSIGN(const Text* name, text_of(arguments.value(0)));
  if (self.dict() != nullptr && find(*self.dict(), name->bytes) != nullptr) return runtime.undefined("dict", name->bytes);
  return attribute(runtime, self, name->bytes);
}

Result<Value> filter_default(Runtime& runtime, const Value& self, const Bound& arguments) {
  if (!self.is_undefined() && (truthy(self) || !flag_or(arguments, 1, false))) return self;
  return arguments.has(0) ? arguments.value(0) : runtime.text("");
}

constexpr Native kFilters[] = {
    {"abs", filter_abs},
    {"attr", filter_attr, 1, {"name"}},
    {"batch", filter_batch, 1, {"linecount", "fill_with"}},
    {"capitalize", filter_capitalize},
    {"center", filter_center, 0, {"width"}},
    {"count", filter_length},
    {"d", filter_default, 0, {"default_value", "boolean"}},
    {"default", filter_default, 0, {"default_value", "boolean"}},
    {"dictsort", filter_dictsort, 0, {"case_sensitive", "by", "reverse"}},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"first", filter_first},
    {"float", filter_float, 0, {"default"}},
    {"forceescape", filter_forceescape},
    {"format", filter_format, kAnyArguments},
    {"groupby", filter_groupby, 1, {"attribute", "default", "case_sensitive"}},
    {"indent", filter_indent, 0, {"width", "first", "blank"}},
    {"int", filter_int, 0, {"default", "base"}},
    {"items", filter_items},
    {"join", filter_join, 0, {"d", "attribute"}},
    {"last", filter_last},
    {"length", filter_length},
    {"list", filter_list},
    {"lower", filter_lower},
    {"map", filter_map, kAnyArguments},
    {"max", filter_max, 0, {"case_sensitive", "attribute"}},
    {"min", filter_min, 0, {"case_sensitive", "attribute"}},
    {"reject", filter_reject, kAnyArguments},
    {"rejectattr", filter_rejectattr, kAnyArguments},
    {"replace", filter_replace, 2, {"old", "new", "count"}},
    {"reverse", filter_reverse},
    {"round", filter_round, 0, {"precision", "method"}},
    {"safe", filter_safe},
    {"select", filter_select, kAnyArguments},
    {"selectattr", filter_selectattr, kAnyArguments},
    {"slice", filter_slice, 1, {"slices", "fill_with"}},
    {"sort", filter_sort, 0, {"reverse", "case_sensitive", "attribute"}},
    {"string", filter_string},
    {"sum", filter_sum, 0, {"attribute", "start"}},
    {"title", filter_title},
    {"tojson", filter_tojson, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"trim", filter_trim, 0, {"chars"}},
    {"truncate", filter_truncate, 0, {"length", "killwords", "end", "leeway"}},
    {"unique", filter_unique, 0, {"case_sensitive", "attribute"}},
    {"upper", filter_upper},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
};
static_assert(sorted_by_name(kFilters));

}  // namespace

const Native* find_filter(std::string_view name) { return find_native(kFilters, name); }

}  // namespace lamina::jinja
