// mroce info: what a program would get on this machine, with the settings as they are.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/device.h"
#include "cli/launch.h"
#include "cli/probe.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "core/mroce/config.h"
#include "net/sockets.h"

namespace mroce::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kFooter = R"(Examples:
  mroce info
  MROCE_PATHS=8 mroce info
  mroce info --json | python3 -m json.tool)";

struct Machine {
  net::Settings settings;
  std::vector<net::LocalAddress> gids;
  std::string node_guid;
  std::string libraries;  // folder, or what is wrong
  ViewProbe view;
  OffloadProbe offload;
  BufferProbe buffer;
};

Outcome<Machine> look_around() {
  auto settings = settings_with({});
  if (!settings) return tl::unexpected(settings.error());
  auto gids = gid_table(*settings);
  if (!gids) return tl::unexpected(gids.error());
  const auto libraries = library_folder();
  DeviceView view;
  if (libraries) {
    auto complete = device_view(*settings, *libraries);
    if (!complete) return tl::unexpected(complete.error());
    view = std::move(*complete);
  }
  const uint64_t wanted = settings->number("receive_buffer");
  return Machine{std::move(*settings),
                 std::move(*gids),
                 view.node_guid,
                 libraries ? libraries->string() : libraries.error().cause,
                 probe_view(view),
                 probe_offload(),
                 probe_receive_buffer(wanted)};
}

struct Limit {
  const char* name;
  uint64_t value;
  const char* sentence;
};

std::vector<Limit> limits() {
  const EngineConfig config;
  return {{"max_qp", config.max_qp, "queue pairs of a process"},
          {"max_qp_wr", config.max_qp_wr, "work requests in a queue"},
          {"max_sge", config.max_sge, "scatter/gather entries of a work request"},
          {"max_inline", config.max_inline, "bytes of inline data"},
          {"max_rd_atomic", config.max_rd_atomic, "outstanding READ and ATOMIC of a queue pair"},
          {"max_cq", config.max_cq, "completion queues"},
          {"max_cqe", config.max_cqe, "entries of a completion queue"},
          {"max_mr", config.max_mr, "memory regions"},
          {"max_pd", config.max_pd, "protection domains"},
          {"max_srq", config.max_srq, "shared receive queues"},
          {"max_srq_wr", config.max_srq_wr, "work requests in a shared receive queue"},
          {"max_connections", config.max_connections, "processes that one process may talk to"}};
}

ordered_json to_json(const Machine& machine) {
  ordered_json out;
  out["schema"] = "mroce-info-1";
  out["version"] = MROCE_VERSION;
  out["library_folder"] = machine.libraries;
  out["device"] = machine.settings.text("device_name");
  out["node_guid"] = machine.node_guid;
  for (size_t i = 0; i < machine.gids.size(); ++i) {
    const net::LocalAddress& gid = machine.gids[i];
    out["gids"].push_back({{"index", i},
                           {"gid", gid_groups(gid.gid)},
                           {"address", net::to_string(gid.gid)},
                           {"interface", gid.interface},
                           {"mtu_bytes", gid.link_mtu},
                           {"up", gid.up}});
  }
  for (const Limit& limit : limits()) out["limits"][limit.name] = limit.value;
  for (const net::Setting& setting : net::all_settings()) {
    const net::EffectiveValue& value = machine.settings.effective(setting.name);
    out["settings"][std::string(setting.name)] = {
        {"value", value.value}, {"origin", value.origin}, {"sentence", setting.sentence}};
  }
  out["machine"] = {{"receive_buffer_bytes", machine.buffer.granted_bytes},
                    {"receive_buffer_hint", machine.buffer.hint},
                    {"udp_gso", machine.offload.gso},
                    {"udp_gro", machine.offload.gro},
                    {"view", machine.view.works},
                    {"view_refusal", machine.view.refusal}};
  return out;
}

void print_section(const char* title, const std::string& body) {
  fmt::print("{}\n{}\n", styled(STDOUT_FILENO, Style::kBold, title), body);
}

std::string gids_text(const Machine& machine) {
  Table table({"GID", "address", "interface", "MTU", "link"});
  for (size_t i = 0; i < machine.gids.size(); ++i) {
    const net::LocalAddress& gid = machine.gids[i];
    table.add({std::to_string(i), net::to_string(gid.gid), gid.interface, std::to_string(gid.link_mtu),
               gid.up ? "up" : "down"});
  }
  return table.text(1, "  ");
}

std::string settings_text(const Machine& machine) {
  Table table({"name", "value", "origin", "meaning"});
  for (const net::Setting& setting : net::all_settings()) {
    const net::EffectiveValue& value = machine.settings.effective(setting.name);
    table.add({std::string(setting.name), value.value, value.origin, std::string(setting.sentence)});
  }
  return table.text(1, "  ");
}

std::string limits_text() {
  Table table({"name", "at most", "of"});
  for (const Limit& limit : limits()) table.add({limit.name, grouped(limit.value), limit.sentence});
  return table.text(2, "  ");
}

std::string machine_text(const Machine& machine) {
  Table table({"what", "found"});
  const auto yes_no = [](bool yes) { return std::string(yes ? "yes" : "no"); };
  table.add(
      {"receive buffer", bytes_text(machine.buffer.granted_bytes) +
                             (machine.buffer.hint.empty() ? "" : "; for more: " + machine.buffer.hint)});
  table.add({"several datagrams in one send (GSO)", yes_no(machine.offload.gso)});
  table.add({"several datagrams in one receive (GRO)", yes_no(machine.offload.gro)});
  table.add({"private /sys/class/infiniband", machine.view.works ? "yes" : "no: " + machine.view.refusal});
  table.add({"verbs library", machine.libraries});
  return table.text(1, "  ");
}

void print_text(const Machine& machine) {
  fmt::print("mroce {}\n\n", MROCE_VERSION);
  const std::string device =
      fmt::format("Device {}, GUID {}", machine.settings.text("device_name"), machine.node_guid);
  print_section(device.c_str(), gids_text(machine));
  print_section("Settings (set with MROCE_NAME, or mroce run --set)", settings_text(machine));
  print_section("Limits", limits_text());
  print_section("This machine", machine_text(machine));
}

}  // namespace

void add_info(CLI::App& app, int& exit_code) {
  CLI::App* info = app.add_subcommand("info", "Show devices, settings, limits and what the machine can do");
  auto json = std::make_shared<bool>(false);
  info->add_flag("--json", *json, "as JSON");
  info->footer(kFooter);
  info->callback([json, &exit_code] {
    const auto machine = look_around();
    if (!machine) {
      exit_code = report(machine.error());
      return;
    }
    if (*json) {
      fmt::print("{}\n", to_json(*machine).dump(2));
    } else {
      print_text(*machine);
    }
  });
}

}  // namespace mroce::cli
