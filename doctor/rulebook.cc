#include "doctor/rulebook.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <set>

#include "doctor/data.h"
#include "doctor/facts.h"

namespace mroce::doctor {

struct RulebookLoader {
  Rulebook book;
  std::string error;

  void fail(std::string what) {
    if (error.empty()) error = std::move(what);
  }

  static std::string text(const toml::table& table, std::string_view key) {
    return table[key].value_or(std::string());
  }

  static std::vector<std::string> texts(const toml::table& table, std::string_view key) {
    std::vector<std::string> out;
    if (const auto* array = table[key].as_array())
      for (const auto& item : *array) out.push_back(item.value_or(std::string()));
    return out;
  }

  Expression expression(std::string_view words, const std::string& whose) {
    auto parsed = Expression::parse(words);
    if (parsed) return *parsed;
    fail(whose + ": " + parsed.error());
    return {};
  }

  void counters(const toml::table& data) {
    if (const auto* table = data["canonical"].as_table()) {
      for (const auto& [name, value] : *table) {
        const auto* entry = value.as_table();
        if (entry == nullptr) return fail("canonical names must be tables");
        book.vendors.canonicals_[std::string(name)] = {
            std::string(name), text(*entry, "unit"), text(*entry, "is"),
            text(*entry, "combine") == "sum" ? Combine::kSum : Combine::kMax};
      }
    }
    if (const auto* table = data["vendor"].as_table())
      for (const auto& [vendor, value] : *table)
        if (const auto* entry = value.as_table()) vendor_of(std::string(vendor), *entry);
  }

  void vendor_of(const std::string& vendor, const toml::table& data) {
    if (text(data, "source").empty()) fail("vendor " + vendor + " has no source");
    for (const auto& prefix : texts(data, "drivers")) book.vendors.prefixes_.emplace_back(prefix, vendor);
    const bool unison = data["unison"].value_or(false);
    for (const auto& [from, value] : data) {
      const auto* list = value.as_array();
      if (list == nullptr || from == "drivers") continue;
      for (const auto& item : *list) {
        const auto* entry = item.as_table();
        if (entry == nullptr) return fail("counters must be tables");
        add_name(vendor, std::string(from), unison, *entry);
      }
    }
  }

  void add_name(const std::string& vendor, const std::string& from, bool unison, const toml::table& entry) {
    VendorName name{vendor, from, text(entry, "name"), text(entry, "is"), text(entry, "note")};
    if (text(entry, "kind") == "gauge") name.kind = CounterKind::kGauge;
    name.width = static_cast<uint8_t>(entry["width"].value_or(int64_t{64}));
    name.scale = static_cast<uint8_t>(entry["scale"].value_or(int64_t{1}));
    name.unison = unison;
    if (book.vendors.canonical(name.canonical) == nullptr)
      fail(fmt::format("{} {}: \"{}\" is no canonical name", vendor, name.name, name.canonical));
    book.vendors.by_pattern_.emplace(name.name, book.vendors.names_.size());
    book.vendors.names_.push_back(std::move(name));
  }

  void thresholds(const toml::table& data) {
    for (const auto& [name, value] : data) {
      const auto* entry = value.as_table();
      if (entry == nullptr) return fail("thresholds must be tables");
      Threshold threshold{std::string(name), text(*entry, "unit"), text(*entry, "is"), text(*entry, "source"),
                          (*entry)["value"].value_or(0.0)};
      if (threshold.source.empty()) fail("threshold " + threshold.name + " has no source");
      book.thresholds[threshold.name] = threshold;
    }
  }

  void rules(const toml::table& data) {
    if (const auto* table = data["metric"].as_table())
      for (const auto& [name, value] : *table)
        book.metrics[std::string(name)] = expression(value.value_or(std::string()), std::string(name));
    if (const auto* table = data["need"].as_table())
      for (const auto& [name, value] : *table) book.needs[std::string(name)] = value.value_or(std::string());
    if (const auto* list = data["rule"].as_array())
      for (const auto& item : *list)
        if (const auto* entry = item.as_table()) rule(*entry);
    if (const auto* list = data["contradiction"].as_array())
      for (const auto& item : *list)
        if (const auto* entry = item.as_table())
          book.contradictions.push_back({text(*entry, "stage"),
                                         expression(text(*entry, "when"), "contradiction"),
                                         text(*entry, "because")});
    std::stable_sort(book.rules.begin(), book.rules.end(),
                     [](const Rule& a, const Rule& b) { return a.number < b.number; });
  }

  void rule(const toml::table& data) {
    Rule out;
    out.id = text(data, "id");
    out.number = static_cast<int>(data["number"].value_or(int64_t{0}));
    out.stage = text(data, "stage");
    out.sentence = text(data, "sentence");
    out.next_check = text(data, "next");
    out.fix = text(data, "fix");
    out.source = text(data, "source");
    out.when_text = text(data, "when");
    out.when = expression(out.when_text, out.id);
    out.needs = texts(data, "needs");
    out.outranks = texts(data, "outranks");
    const auto layer = layer_of(text(data, "layer"));
    const auto confidence = confidence_of(text(data, "confidence"));
    if (!layer || !confidence) fail(out.id + ": no layer or no confidence");
    out.layer = layer.value_or(Layer::kNone);
    out.confidence = confidence.value_or(Confidence::kLow);
    severity(out, text(data, "severity"));
    for (const auto& words : texts(data, "cite")) out.cite.push_back(expression(words, out.id));
    if (const auto* list = data["lower"].as_array()) {
      for (const auto& item : *list) {
        const auto* entry = item.as_table();
        if (entry == nullptr) return fail(out.id + ": `lower` must hold tables");
        const auto to = confidence_of(text(*entry, "to"));
        if (!to) fail(out.id + ": `lower` without a confidence");
        out.lower.push_back({expression(text(*entry, "when"), out.id), to.value_or(Confidence::kLow),
                             text(*entry, "because")});
      }
    }
    if (out.source.empty() || out.sentence.empty() || out.next_check.empty() || out.fix.empty())
      fail(out.id + ": a rule needs a sentence, a next check, a fix and a source");
    book.rules.push_back(std::move(out));
  }

  void severity(Rule& rule, const std::string& word) {
    if (word == "invalid")
      rule.severity = Severity::kInvalid;
    else if (word == "fault")
      rule.severity = Severity::kFault;
    else if (word == "warning")
      rule.severity = Severity::kWarning;
    else if (word == "normal")
      rule.severity = Severity::kNormal;
    else
      fail(rule.id + ": no severity");
  }

  // Names that nothing defines are spelling mistakes.
  void check_names(const Expression& expression, const std::string& whose) {
    for (const std::string& name : expression.names()) {
      if (name.starts_with("counter:")) {
        if (book.vendors.canonical(std::string_view(name).substr(8)) == nullptr)
          fail(fmt::format("{}: \"{}\" is no counter", whose, name.substr(8)));
      } else if (name.starts_with("limit.")) {
        if (!book.thresholds.contains(name.substr(6)))
          fail(fmt::format("{}: \"{}\" is no threshold", whose, name));
      } else if (!book.metrics.contains(name) && !World::is_fact(name)) {
        fail(fmt::format("{}: nothing is called \"{}\"", whose, name));
      }
    }
  }

  void check() {
    std::set<std::string> ids;
    for (const Rule& rule : book.rules)
      if (!ids.insert(rule.id).second) fail("two rules are called " + rule.id);
    for (const auto& [name, metric] : book.metrics) check_names(metric, name);
    for (const Contradiction& each : book.contradictions) check_names(each.when, "contradiction");
    for (const Rule& rule : book.rules) {
      check_names(rule.when, rule.id);
      for (const auto& cite : rule.cite) check_names(cite, rule.id);
      for (const auto& lower : rule.lower) check_names(lower.when, rule.id);
      for (const auto& other : rule.outranks)
        if (!ids.contains(other)) fail(fmt::format("{} outranks \"{}\", which is no rule", rule.id, other));
      for (const auto& need : rule.needs)
        if (!book.needs.contains(need))
          fail(fmt::format("{} needs \"{}\", which is not described", rule.id, need));
    }
  }
};

tl::expected<Rulebook, std::string> load_rulebook(std::string_view counters_toml,
                                                  std::string_view thresholds_toml,
                                                  std::string_view rules_toml) {
  RulebookLoader loader;
  try {
    loader.counters(toml::parse(counters_toml, std::string_view("counters.toml")));
    loader.thresholds(toml::parse(thresholds_toml, std::string_view("thresholds.toml")));
    loader.rules(toml::parse(rules_toml, std::string_view("rules.toml")));
  } catch (const toml::parse_error& error) {
    const auto& source = error.source();
    return tl::unexpected(
        fmt::format("{}:{}: {}", source.path ? *source.path : "", source.begin.line, error.description()));
  }
  loader.check();
  if (!loader.error.empty()) return tl::unexpected(loader.error);
  return std::move(loader.book);
}

const Rule* Rulebook::rule(std::string_view id_or_number) const {
  for (const Rule& rule : rules)
    if (rule.id == id_or_number || std::to_string(rule.number) == id_or_number) return &rule;
  return nullptr;
}

}  // namespace mroce::doctor
