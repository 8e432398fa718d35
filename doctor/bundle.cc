#include "doctor/bundle.h"

#include <nlohmann/json.hpp>

#include "doctor/lenient_json.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, Phase>, 3> kPhases = {
    {{"start", Phase::kStart}, {"end", Phase::kEnd}, {"sample", Phase::kSample}}};
constexpr std::array<std::pair<std::string_view, Role>, 3> kRoles = {
    {{"sender", Role::kSender}, {"receiver", Role::kReceiver}, {"switch", Role::kSwitch}}};

ordered_json source_json(const BundleSource& source) {
  ordered_json out{{"name", source.name}};
  if (!source.device.empty()) out["device"] = source.device;
  if (!source.netdev.empty()) out["netdev"] = source.netdev;
  if (source.text)
    out["text"] = *source.text;
  else
    out["missing"] = source.missing;
  return out;
}

std::string taken(JsonValue* member) {
  return member == nullptr ? std::string() : std::move(member->text);
}

JsonValue* find(JsonValue& object, std::string_view name) {
  for (size_t i = 0; i < object.names.size(); ++i)
    if (object.names[i] == name) return &object.items[i];
  return nullptr;
}

int64_t time_at(const JsonValue& object, std::string_view name) {
  const auto value = whole_number(object.string_at(name));
  return value && *value < static_cast<uint64_t>(INT64_MAX) ? static_cast<int64_t>(*value) : 0;
}

Snapshot snapshot_of(JsonValue& value) {
  Snapshot out;
  out.phase = Phase::kUnknown;
  const std::string phase = value.string_at("phase");
  for (const auto& [word, known] : kPhases)
    if (word == phase) out.phase = known;
  out.time_ns = time_at(value, "time_ns");
  JsonValue* sources = find(value, "sources");
  if (sources == nullptr) return out;
  for (JsonValue& source : sources->items) {
    if (!source.is_object()) continue;
    BundleSource& entry = out.sources.emplace_back();
    entry.name = taken(find(source, "name"));
    entry.device = taken(find(source, "device"));
    entry.netdev = taken(find(source, "netdev"));
    entry.missing = taken(find(source, "missing"));
    if (JsonValue* text = find(source, "text"); text != nullptr && text->kind == JsonValue::Kind::kString)
      entry.text = std::move(text->text);
  }
  return out;
}

CommandRun command_of(JsonValue& value) {
  CommandRun out;
  if (const JsonValue* argv = value.find("argv"); argv != nullptr)
    for (const JsonValue& word : argv->items) out.argv.push_back(word.text);
  out.exit_status =
      static_cast<int>(std::min(1e6, std::max(-1e6, value.number_at("exit_status").value_or(0))));
  out.output = taken(find(value, "output"));
  out.begin_ns = time_at(value, "begin_ns");
  out.end_ns = time_at(value, "end_ns");
  return out;
}

Bundle bundle_of(JsonValue& value) {
  Bundle out;
  out.writer = value.string_at("writer");
  out.host = value.string_at("host");
  out.boot_id = value.string_at("boot_id");
  out.redacted = value.string_at("redacted") == "true";
  const std::string role = value.string_at("role");
  for (const auto& [word, known] : kRoles)
    if (word == role) out.role = known;
  if (JsonValue* snapshots = find(value, "snapshots"); snapshots != nullptr)
    for (JsonValue& snapshot : snapshots->items) out.snapshots.push_back(snapshot_of(snapshot));
  if (JsonValue* command = find(value, "command"); command != nullptr && command->is_object())
    out.command = command_of(*command);
  return out;
}

}  // namespace

std::string to_json(const Bundle& bundle) {
  ordered_json out{{"schema", kBundleSchema}, {"writer", bundle.writer}, {"host", bundle.host}};
  if (!bundle.boot_id.empty()) out["boot_id"] = bundle.boot_id;
  for (const auto& [word, role] : kRoles)
    if (role == bundle.role) out["role"] = word;
  out["redacted"] = bundle.redacted;
  out["snapshots"] = ordered_json::array();
  for (const Snapshot& snapshot : bundle.snapshots) {
    ordered_json entry;
    for (const auto& [word, phase] : kPhases)
      if (phase == snapshot.phase) entry["phase"] = word;
    entry["time_ns"] = snapshot.time_ns;
    entry["sources"] = ordered_json::array();
    for (const BundleSource& source : snapshot.sources) entry["sources"].push_back(source_json(source));
    out["snapshots"].push_back(std::move(entry));
  }
  if (bundle.command) {
    const CommandRun& command = *bundle.command;
    out["command"] = {{"argv", command.argv},
                      {"exit_status", command.exit_status},
                      {"output", command.output},
                      {"begin_ns", command.begin_ns},
                      {"end_ns", command.end_ns}};
  }
  // Programs print what they like; a bundle is UTF-8 in any case.
  return out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

bool read_bundles(JsonValue&& value, const std::function<void(Bundle&&, uint32_t)>& take,
                  const std::function<void(uint32_t, std::string)>& problem) {
  if (value.is_array()) {
    bool any = false;
    for (JsonValue& item : value.items) any = read_bundles(std::move(item), take, problem) || any;
    return any;
  }
  if (!value.is_object()) return false;
  const std::string schema = value.string_at("schema");
  if (schema == kBundlesSchema) {
    if (JsonValue* list = find(value, "bundles"); list != nullptr)
      for (JsonValue& item : list->items) read_bundles(std::move(item), take, problem);
    return true;
  }
  if (schema == kBundleSchema) {
    take(bundle_of(value), value.line);
    return true;
  }
  if (schema.starts_with("mroce.doctor.bundle")) {
    problem(value.line,
            "a bundle of the schema \"" + schema.substr(0, 60) + "\", which this version does not know");
    return true;
  }
  return false;
}

}  // namespace mroce::doctor
