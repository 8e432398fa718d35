#include "doctor/collect/redact.h"

#include <algorithm>
#include <array>

#include "doctor/collect/addresses.h"
#include "doctor/text.h"

namespace mroce::doctor {
namespace {

constexpr size_t kMaxNames = 100'000;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789.") == std::string_view::npos;
}

// "Serial Number : 1650", "[SN] Serial number: MT1", "…/phys_switch_id:0c42a1": where the value begins.
size_t secret_value(std::string_view line) {
  static constexpr std::array<std::string_view, 5> kMarks = {
      "serial number", "serial:", "phys_switch_id:", "slurm_nodelist=", "slurm_job_nodelist="};
  const std::string lower = lowered(line);
  for (const std::string_view mark : kMarks) {
    const size_t at = lower.find(mark);
    if (at == std::string::npos) continue;
    size_t value = at + mark.size();
    while (value < line.size() && (line[value] == ' ' || line[value] == '\t' || line[value] == ':')) ++value;
    return value;
  }
  return std::string_view::npos;
}

bool speaks_of_versions(std::string_view line) {
  const std::string lower = lowered(line);
  for (const char* word : {"version", "firmware", "fw_ver", "driver", "vbios", "inforom"})
    if (contains(lower, word)) return true;
  return false;
}

}  // namespace

void Redactor::also(std::string_view word, std::string_view kind) {
  if (!word.empty() && words_.size() < kMaxNames) words_.try_emplace(std::string(word), kind);
}

void Redactor::learn_host(std::string_view name) {
  if (name.size() < 2 || name == "localhost" || is_number(name) ||
      find_address(name, 0).length == name.size())
    return;
  const std::string_view short_name = before(name, ".");
  also(short_name);
  const std::string_view domain = after(name, ".");
  if (!domain.empty() && std::find(domains_.begin(), domains_.end(), domain) == domains_.end())
    domains_.emplace_back(domain);
}

// nccl-tests: "Pid 42 on     nodeA device"; NCCL: "nodeA:42:43 [0] NCCL"; sysfs: "…/node_desc:nodeA mlx5_0".
void Redactor::learn_text(std::string_view text) {
  for (const std::string_view line : split(text, '\n')) {
    if (const auto description = after(line, "/node_desc:"); !description.empty()) {
      const auto words = words_of(description);
      if (words.size() > 1) learn_host(words.front());
    }
    if (contains(line, " Pid ") && contains(line, " device "))
      for (const auto words = words_of(line); const auto& word : words)
        if (&word != &words.front() && *(&word - 1) == "on") learn_host(word);
    if (contains(line, " NCCL ")) {
      const auto words = words_of(line);
      const auto parts = split(words.front(), ':');
      if (parts.size() >= 3 && is_number(parts[1])) learn_host(parts[0]);
    }
  }
}

void Redactor::learn_arguments(const std::vector<std::string>& arguments) {
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::string& previous = arguments[i - 1];
    std::string_view list;
    for (const char* flag : {"-H", "-host", "--host", "-hosts", "-w", "--nodelist"})
      if (previous == flag) list = word;
    for (const char* flag : {"--host=", "--nodelist="})
      if (word.starts_with(flag)) list = after(word, "=");
    for (const std::string_view host : split(list, ',')) learn_host(before(host, ":"));
  }
  // A client of perftest or of a pingpong names its server last, behind a flag without a value or a value.
  if (arguments.size() < 2) return;
  for (const std::string& word : arguments) {
    const std::string_view program = std::string_view(word).substr(word.rfind('/') + 1);
    const bool client = program.starts_with("ib_") || program.starts_with("ibv_");
    const std::string& last = arguments.back();
    if (client && &word != &last && !last.starts_with('-') && !contains(last, "/") &&
        (!arguments[arguments.size() - 2].starts_with('-') || arguments[arguments.size() - 2] == "-F" ||
         arguments[arguments.size() - 2].starts_with("--report")))
      learn_host(last);
  }
}

void Redactor::learn(const Bundle& bundle) {
  learn_host(bundle.host);
  for (const Snapshot& snapshot : bundle.snapshots)
    for (const BundleSource& source : snapshot.sources)
      if (source.text) learn_text(*source.text);
  if (!bundle.command) return;
  learn_text(bundle.command->output);
  learn_arguments(bundle.command->argv);
}

size_t Redactor::address_at(std::string_view line, size_t at, bool versions, std::string& out) {
  FoundAddress found = find_address(line, at);
  switch (found.kind) {
    case AddressKind::kNone:
      return 0;
    case AddressKind::kUuid:
      out += pseudonyms_.uuid(line.substr(at, found.length));
      return found.length;
    case AddressKind::kIpv4:
      if (versions) return 0;
      pseudonyms_.ipv4(std::span(found.bytes).first<4>());
      break;
    case AddressKind::kIpv6:
      pseudonyms_.ipv6(std::span(found.bytes).first<16>());
      break;
    case AddressKind::kMac:
      pseudonyms_.mac(std::span(found.bytes).first<6>());
      break;
    case AddressKind::kGuid:
      pseudonyms_.guid(std::span(found.bytes).first<8>());
      break;
  }
  out += address_text(found);
  return found.length;
}

size_t Redactor::word_at(std::string_view line, size_t at, std::string& out) {
  size_t end = at;
  while (end < line.size() && is_name_char(line[end])) {
    ++end;
    // "GPU-1f2e…": the number of a device behind its kind.
    if (line[end - 1] == '-' && find_address(line, end).kind == AddressKind::kUuid) break;
  }
  auto known = words_.find(line.substr(at, end - at));
  // "nodeA-ib0" is nodeA's.
  for (size_t dash = end; known == words_.end() && dash-- > at;) {
    if (line[dash] != '-') continue;
    known = words_.find(line.substr(at, dash - at));
    if (known != words_.end()) end = dash;
  }
  for (const std::string& domain : domains_) {
    if (line.substr(end).starts_with("." + domain)) {
      out += pseudonyms_.word("host", line.substr(at, end - at));
      return end - at + 1 + domain.size();
    }
    if (line.substr(at).starts_with(domain)) {
      out += pseudonyms_.word("domain", domain);
      return domain.size();
    }
  }
  if (known != words_.end())
    out += pseudonyms_.word(known->second, known->first);
  else
    out += line.substr(at, end - at);
  return end - at;
}

std::string Redactor::line(std::string_view original) {
  std::string out;
  const size_t secret = secret_value(original);
  const std::string_view all = original.substr(0, secret);
  const bool versions = speaks_of_versions(all);
  for (size_t at = 0; at < all.size();) {
    // A name in a home folder is a user's.
    if (all.substr(at).starts_with("/home/")) {
      const size_t end = std::min(all.find_first_of("/ :,;\"'", at + 6), all.size());
      out += "/home/";
      if (end > at + 6) out += pseudonyms_.word("user", all.substr(at + 6, end - at - 6));
      at = end;
      continue;
    }
    size_t taken = at > 0 && all[at - 1] == '.' ? 0 : address_at(all, at, versions, out);
    if (taken == 0 && is_name_char(all[at])) taken = word_at(all, at, out);
    if (taken == 0) out += all[at];
    at += std::max<size_t>(taken, 1);
  }
  if (secret == std::string_view::npos) return out;
  const std::string_view value = trim(original.substr(secret));
  const bool none = value.empty() || value == "N/A" || value == "0" || value == "[N/A]";
  return out + (none ? std::string(value) : pseudonyms_.word("secret", value));
}

std::string Redactor::text(std::string_view original) {
  std::string out;
  while (true) {
    const size_t end = original.find('\n');
    out += line(original.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '\n';
    original.remove_prefix(end + 1);
  }
}

void Redactor::redact(Bundle& bundle) {
  const auto replace = [this](std::string& of) { of = text(of); };
  if (!bundle.host.empty()) bundle.host = pseudonyms_.word("host", before(bundle.host, "."));
  replace(bundle.boot_id);
  for (Snapshot& snapshot : bundle.snapshots)
    for (BundleSource& source : snapshot.sources) {
      replace(source.name);
      if (source.text) replace(*source.text);
      replace(source.missing);
    }
  if (bundle.command) {
    for (std::string& word : bundle.command->argv) replace(word);
    replace(bundle.command->output);
  }
  bundle.redacted = true;
}

}  // namespace mroce::doctor
