#pragma once
// The code of the filters; the table that names them is in filters.cc. `self` is what stands left of the bar.

#include "text/jinja/native.h"

namespace lamina::jinja {

/// The value reached from another by a path such as "a.b.0"; each part is an item, else an attribute.
class AttributePath {
 public:
  AttributePath() = default;  // the value itself
  /// `path`: text, or an integer.
  static Result<AttributePath> parse(Runtime& runtime, const Value& path);
  /// Where a step is undefined, `otherwise` (when given) goes on in its place.
  Result<Value> from(Runtime& runtime, const Value& value, const Value* otherwise = nullptr) const;

 private:
  std::vector<Value> parts_;
};

/// Text in lower case, unless `case_sensitive`; other values as they are: what sort and its kin compare.
Value comparable(Runtime& runtime, const Value& value, bool case_sensitive);
/// Positions of `keys` in their order, stable.
Result<std::vector<size_t>> sorted_places(Runtime& runtime, std::span<const Value> keys, bool reverse);

// filters_text.cc
Result<Value> filter_capitalize(Runtime&, const Value& self, const Bound&);
Result<Value> filter_center(Runtime&, const Value& self, const Bound&);
Result<Value> filter_escape(Runtime&, const Value& self, const Bound&);
Result<Value> filter_forceescape(Runtime&, const Value& self, const Bound&);
Result<Value> filter_format(Runtime&, const Value& self, const Bound&);
Result<Value> filter_indent(Runtime&, const Value& self, const Bound&);
Result<Value> filter_lower(Runtime&, const Value& self, const Bound&);
Result<Value> filter_replace(Runtime&, const Value& self, const Bound&);
Result<Value> filter_safe(Runtime&, const Value& self, const Bound&);
Result<Value> filter_string(Runtime&, const Value& self, const Bound&);
Result<Value> filter_title(Runtime&, const Value& self, const Bound&);
Result<Value> filter_trim(Runtime&, const Value& self, const Bound&);
Result<Value> filter_truncate(Runtime&, const Value& self, const Bound&);
Result<Value> filter_upper(Runtime&, const Value& self, const Bound&);
Result<Value> filter_urlencode(Runtime&, const Value& self, const Bound&);
Result<Value> filter_wordcount(Runtime&, const Value& self, const Bound&);

// filters_number.cc
Result<Value> filter_abs(Runtime&, const Value& self, const Bound&);
Result<Value> filter_float(Runtime&, const Value& self, const Bound&);
Result<Value> filter_int(Runtime&, const Value& self, const Bound&);
Result<Value> filter_round(Runtime&, const Value& self, const Bound&);
Result<Value> filter_sum(Runtime&, const Value& self, const Bound&);

// filters_sequence.cc
Result<Value> filter_batch(Runtime&, const Value& self, const Bound&);
Result<Value> filter_first(Runtime&, const Value& self, const Bound&);
Result<Value> filter_items(Runtime&, const Value& self, const Bound&);
Result<Value> filter_join(Runtime&, const Value& self, const Bound&);
Result<Value> filter_last(Runtime&, const Value& self, const Bound&);
Result<Value> filter_length(Runtime&, const Value& self, const Bound&);
Result<Value> filter_list(Runtime&, const Value& self, const Bound&);
Result<Value> filter_reverse(Runtime&, const Value& self, const Bound&);
Result<Value> filter_slice(Runtime&, const Value& self, const Bound&);

// filters_select.cc
Result<Value> filter_map(Runtime&, const Value& self, const Bound&);
Result<Value> filter_reject(Runtime&, const Value& self, const Bound&);
Result<Value> filter_rejectattr(Runtime&, const Value& self, const Bound&);
Result<Value> filter_select(Runtime&, const Value& self, const Bound&);
Result<Value> filter_selectattr(Runtime&, const Value& self, const Bound&);

// filters_order.cc
Result<Value> filter_dictsort(Runtime&, const Value& self, const Bound&);
Result<Value> filter_groupby(Runtime&, const Value& self, const Bound&);
Result<Value> filter_max(Runtime&, const Value& self, const Bound&);
Result<Value> filter_min(Runtime&, const Value& self, const Bound&);
Result<Value> filter_sort(Runtime&, const Value& self, const Bound&);
Result<Value> filter_unique(Runtime&, const Value& self, const Bound&);

// to_json.cc
Result<Value> filter_tojson(Runtime&, const Value& self, const Bound&);

}  // namespace lamina::jinja
