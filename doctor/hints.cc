// What file names tell. They are made by people: "nodeA/ethtool_eth0_before.txt", "post-receiver.log".
#include <algorithm>
#include <array>

#include "doctor/ingest.h"

namespace mroce::doctor {
namespace {

struct PhaseWord {
  std::string_view word;
  Phase phase;
};
constexpr std::array kPhases = {
    PhaseWord{"before", Phase::kStart},  PhaseWord{"start", Phase::kStart}, PhaseWord{"begin", Phase::kStart},
    PhaseWord{"pre", Phase::kStart},     PhaseWord{"t0", Phase::kStart},    PhaseWord{"first", Phase::kStart},
    PhaseWord{"initial", Phase::kStart}, PhaseWord{"after", Phase::kEnd},   PhaseWord{"end", Phase::kEnd},
    PhaseWord{"post", Phase::kEnd},      PhaseWord{"t1", Phase::kEnd},      PhaseWord{"last", Phase::kEnd},
    PhaseWord{"final", Phase::kEnd},     PhaseWord{"stop", Phase::kEnd},
};

struct RoleWord {
  std::string_view word;
  Role role;
};
constexpr std::array kRoles = {
    RoleWord{"sender", Role::kSender},      RoleWord{"client", Role::kSender},
    RoleWord{"src", Role::kSender},         RoleWord{"requester", Role::kSender},
    RoleWord{"initiator", Role::kSender},   RoleWord{"receiver", Role::kReceiver},
    RoleWord{"server", Role::kReceiver},    RoleWord{"dst", Role::kReceiver},
    RoleWord{"responder", Role::kReceiver}, RoleWord{"target", Role::kReceiver},
    RoleWord{"switch", Role::kSwitch},      RoleWord{"tor", Role::kSwitch},
    RoleWord{"leaf", Role::kSwitch},        RoleWord{"spine", Role::kSwitch},
};

// Words that say what a file is, and nothing of whose it is.
constexpr std::array<std::string_view, 62> kFormats = {
    "ethtool",  "stats",     "stat",    "statistics", "counters", "counter",  "rdma",      "statistic",
    "hw",       "txt",       "log",     "json",       "out",      "output",   "dump",      "sysfs",
    "ib",       "ibstat",    "ibv",     "devinfo",    "nccl",     "rccl",     "tests",     "test",
    "perftest", "perf",      "write",   "read",       "send",     "bw",       "lat",       "all",
    "reduce",   "allreduce", "gather",  "scatter",    "alltoall", "sendrecv", "broadcast", "bundle",
    "snapshot", "s",         "link",    "show",       "lspci",    "pci",      "mlnx",      "qos",
    "dcb",      "pfc",       "gids",    "gid",        "toml",     "csv",      "err",       "stdout",
    "stderr",   "result",    "results", "data",       "info",     "pfcwd"};

constexpr std::array<std::string_view, 21> kVariants = {
    "cuda",   "gpu", "host",  "pinned", "unpinned", "taskset",   "numa",
    "incast", "n1",  "local", "remote", "same",     "cross",     "rack",
    "rail",   "qp",  "bidir", "tcp",    "sameleaf", "crossleaf", "single"};

bool is_netdev(std::string_view word) {
  static constexpr std::array<std::string_view, 8> kPrefixes = {"eth",  "ens", "enp",  "eno",
                                                                "bond", "enP", "roce", "rdma"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](std::string_view prefix) {
    return word.starts_with(prefix) && word.size() > prefix.size() && word[prefix.size()] >= '0' &&
           word[prefix.size()] <= '9';
  });
}

bool numeric(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "8qp", "rail3": a word of kVariants with a number at one end.
bool is_variant(std::string_view word) {
  while (!word.empty() && word.back() >= '0' && word.back() <= '9') word.remove_suffix(1);
  while (!word.empty() && word.front() >= '0' && word.front() <= '9') word.remove_prefix(1);
  return std::find(kVariants.begin(), kVariants.end(), word) != kVariants.end();
}

// RDMA devices carry an underscore themselves: "mlx5_0", "bnxt_re1", "mlx5_bond_0".
std::string device_in(std::string& path) {
  for (const std::string_view prefix : {"mlx5_bond_", "mlx5_", "mlx4_", "bnxt_re_bond", "bnxt_re", "irdma",
                                        "ionic_", "mana_", "hns_", "rxe_", "rxe", "efa_", "rocep", "mroce"}) {
    const size_t at = path.find(prefix);
    if (at == std::string::npos) continue;
    size_t end = at + prefix.size();
    const size_t digits = end;
    while (end < path.size() && ((path[end] >= '0' && path[end] <= '9') ||
                                 (prefix == "rocep" && ((path[end] >= 'a' && path[end] <= 'z')))))
      ++end;
    if (end == digits) continue;
    std::string device = path.substr(at, end - at);
    path.erase(at, end - at);
    return device;
  }
  return {};
}

}  // namespace

NameHints hints_of(std::string_view path_view) {
  NameHints out;
  std::string path(path_view);
  out.device = device_in(path);
  for (char& c : path)
    if (c == '/' || c == '_' || c == '-' || c == '.' || c == ' ' || c == '+' || c == '(' || c == ')') c = ' ';
  std::vector<std::string_view> rest, numbers;
  std::string role_word;
  for (const std::string_view raw : words_of(path)) {
    const std::string word = lowered(raw);
    const auto* phase =
        std::find_if(kPhases.begin(), kPhases.end(), [&](const PhaseWord& p) { return p.word == word; });
    const auto* role =
        std::find_if(kRoles.begin(), kRoles.end(), [&](const RoleWord& r) { return r.word == word; });
    if (phase != kPhases.end()) {
      out.phase = phase->phase;
    } else if (role != kRoles.end()) {
      out.role = role->role;
      role_word = word;
    } else if (is_netdev(raw)) {
      out.netdev = std::string(raw);
    } else if (is_variant(word)) {
      out.variant += (out.variant.empty() ? "" : " ") + word;
    } else if (std::find(kFormats.begin(), kFormats.end(), word) != kFormats.end()) {
      continue;
    } else if (numeric(word)) {
      numbers.push_back(raw);
    } else {
      rest.push_back(raw);
    }
  }
  for (const auto word : rest) out.host += (out.host.empty() ? "" : "-") + std::string(word);
  if (out.host.empty()) out.host = role_word;
  // "node-1": the number belongs to the name. "ethtool.1.txt": it is an order, which the command line has as
  // well.
  if (!out.host.empty())
    for (const auto number : numbers) out.host += "-" + std::string(number);
  return out;
}

}  // namespace mroce::doctor
