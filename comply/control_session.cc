#include "comply/control_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "comply/core_target.h"
#include "net/settings.h"

namespace mroce::comply {
namespace {

using nlohmann::json;

constexpr uint32_t kMaxMrBytes = 1U << 26;
constexpr uint32_t kMaxMemoryPiece = 16384;
constexpr uint64_t kMaxMrTotal = 1U << 28;  // of all, bytes that nobody refers to any more included
constexpr size_t kMaxObjects = 1000;        // of a kind
constexpr uint32_t kMaxWr = 32768;
constexpr size_t kPskBytes = 32;

// Why a request cannot be served; caught in answer().
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) throw Refused(fmt::format("{}: {}", what, sentence_of(result.error())));
  return *result;
}
void must(Status result, const char* what) {
  if (!result) throw Refused(fmt::format("{}: {}", what, sentence_of(result.error())));
}

uint64_t required(const json& request, const char* key, uint64_t most) {
  const auto number = number_of(request, key, most);
  if (!number) throw Refused(fmt::format("{}: not a number from 0 to {}", key, most));
  return *number;
}
uint64_t number_or(const json& request, const char* key, uint64_t most, uint64_t otherwise) {
  return request.contains(key) ? required(request, key, most) : otherwise;
}
bool flag_of(const json& request, const char* key) {
  const auto found = request.find(key);
  if (found == request.end()) return false;
  if (!found->is_boolean()) throw Refused(fmt::format("{}: not a boolean", key));
  return found->get<bool>();
}
uint64_t wide_or(const json& request, const char* key, uint64_t otherwise) {
  if (!request.contains(key)) return otherwise;
  const auto number = wide_number_of(request, key);
  if (!number) throw Refused(fmt::format("{}: not a string of hexadecimal digits with 0x in front", key));
  return *number;
}

// The setting of the UDP endpoint that is a limit of the control protocol; empty: there is none.
std::string_view setting_for(std::string_view limit) {
  constexpr std::pair<std::string_view, std::string_view> kSettings[] = {
      {"max_paths", "paths"}, {"max_payload", "max_payload"}, {"key_update_packets", "key_update"}};
  for (const auto& [name, setting] : kSettings) {
    if (name == limit) return setting;
  }
  return {};
}

uint32_t rights_of(const json& request, uint32_t otherwise) {
  constexpr std::pair<std::string_view, uint32_t> kRights[] = {{"local_write", access::kLocalWrite},
                                                               {"remote_write", access::kRemoteWrite},
                                                               {"remote_read", access::kRemoteRead},
                                                               {"remote_atomic", access::kRemoteAtomic}};
  const auto list = request.find("access");
  if (list == request.end()) return otherwise;
  if (!list->is_array() || list->size() > 16) throw Refused("access: not a list");
  uint32_t out = 0;
  for (const json& each : *list) {
    uint32_t bit = 0;
    for (const auto& [name, value] : kRights) {
      if (each.is_string() && each.get_ref<const std::string&>() == name) bit = value;
    }
    if (bit == 0) throw Refused("access: an unknown right");
    out |= bit;
  }
  return out;
}

// The endpoint takes a pre-shared key from a file only. This one nobody else can read, and it is gone when
// the endpoint has been opened.
class KeyFile {
 public:
  explicit KeyFile(const Bytes& key) {
    const int fd = mkstemp(path_.data());  // with the rights 0600
    if (fd < 0) throw Refused(fmt::format("psk: no file for it: {}", std::strerror(errno)));
    const bool whole = write(fd, key.data(), key.size()) == static_cast<ssize_t>(key.size());
    close(fd);
    if (whole) return;
    unlink(path_.c_str());
    throw Refused("psk: its file cannot be written");
  }
  ~KeyFile() { unlink(path_.c_str()); }
  KeyFile(const KeyFile&) = delete;
  KeyFile& operator=(const KeyFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  static std::string pattern() {
    std::error_code none;  // then it is the current folder
    return (std::filesystem::temp_directory_path(none) / "mroce-comply-XXXXXX").string();
  }
  std::string path_ = pattern();
};

json error(const std::string& why, bool unsupported = false) {
  json out = {{"ok", false}, {"error", why}};
  if (unsupported) out["unsupported"] = true;
  return out;
}

}  // namespace

ControlSession::~ControlSession() = default;

std::string ControlSession::answer(std::string_view line) {
  json out;
  try {
    const json request = json::parse(line, nullptr, false);
    out = request.is_object() ? dispatch(request) : error("the request is not a JSON object");
  } catch (const Refused& refused) {
    out = error(refused.what());
  } catch (const Unsupported& refused) {
    out = error(refused.what(), true);
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

nlohmann::json ControlSession::dispatch(const Json& request) {
  using Command = Json (ControlSession::*)(const Json&);
  constexpr std::pair<std::string_view, Command> kCommands[] = {
      {"hello", &ControlSession::hello},
      {"start", &ControlSession::start},
      {"stop", &ControlSession::stop},
      {"create_mr", &ControlSession::create_mr},
      {"destroy_mr", &ControlSession::destroy_mr},
      {"read_memory", &ControlSession::read_memory},
      {"write_memory", &ControlSession::write_memory},
      {"create_srq", &ControlSession::create_srq},
      {"create_qp", &ControlSession::create_qp},
      {"connect_qp", &ControlSession::connect_qp},
      {"modify_qp", &ControlSession::modify_qp},
      {"query_qp", &ControlSession::query_qp},
      {"destroy_qp", &ControlSession::destroy_qp},
      {"post_recv", &ControlSession::post_recv},
      {"post_send", &ControlSession::post_send},
      {"poll", &ControlSession::poll},
  };
  const std::string name = text_of(request, "cmd", 64).value_or("");
  for (const auto& [command, function] : kCommands) {
    if (command != name) continue;
    json out = (this->*function)(request);
    out["ok"] = true;
    return out;
  }
  return error("there is no such command here", true);
}

EngineHost& ControlSession::endpoint() {
  if (!endpoint_) throw Refused("there is no endpoint: start comes first");
  return *endpoint_;
}

nlohmann::json ControlSession::hello(const Json& request) {
  if (number_or(request, "protocol", UINT32_MAX, 1) != 1) throw Refused("this speaks protocol 1");
  return {{"protocol", 1},
          {"implementation", "mroce (net::Endpoint over UDP)"},
          {"features", {"requester", "read", "atomics", "srq", "initiator", "paths", "mode2", "retry"}}};
}

nlohmann::json ControlSession::start(const Json& request) {
  if (endpoint_) throw Refused("this process has an endpoint already");
  const uint64_t mode = number_or(request, "mode", 255, 0);
  if (mode != 0 && mode != 2) throw Unsupported("security modes 0 and 2 only");
  net::Settings settings;
  const auto set = [&](std::string_view name, const std::string& value) {
    if (auto done = settings.set(name, value, "control protocol"); !done) throw Refused(done.error());
  };
  set("addresses", net::to_string(address_));
  set("log", "error");
  const json limits = request.value("limits", json::object());
  if (!limits.is_object()) throw Refused("limits: not an object");
  for (const auto& [name, value] : limits.items()) {
    const std::string_view setting = setting_for(name);
    if (setting.empty()) throw Unsupported("the UDP endpoint has no setting for " + name.substr(0, 40));
    set(setting, std::to_string(required(limits, name.c_str(), UINT32_MAX)));
  }
  if (request.contains("seed")) set("seed", std::to_string(required(request, "seed", UINT32_MAX)));
  if (mode == 2) set("security", "require");
  std::optional<KeyFile> key;
  if (request.contains("psk")) {
    if (mode != 2) throw Refused("psk: for mode 2 only");
    const auto psk = bytes_of(request, "psk", kPskBytes);
    if (!psk || psk->size() != kPskBytes) throw Refused("psk: not 32 bytes");
    key.emplace(*psk);
    set("key_file", key->path());
  }
  if (auto valid = settings.validate(); !valid) throw Unsupported(valid.error());
  auto opened = open_(settings);
  if (!opened) throw Refused(opened.error());
  endpoint_ = std::move(*opened);
  pd_ = must(endpoint_->command([](Engine& engine, Time) { return engine.alloc_pd(); }), "alloc_pd");
  const auto base = static_cast<uint16_t>(settings.number("base_port"));
  return {{"address", net::to_string(address_)},
          {"port", base + endpoint_->slot()},
          {"slot", endpoint_->slot()},
          {"planes", 1}};
}

// The goodbye goes on while the client watches: the helper thread of the endpoint sends it.
nlohmann::json ControlSession::stop(const Json&) {
  endpoint().command([](Engine& engine, Time now) {
    engine.shutdown(now);
    return Status{};
  });
  return Json::object();
}

ControlSession::Mr& ControlSession::region(const Json& request) {
  const auto found = mrs_.find(static_cast<uint32_t>(required(request, "mr", UINT32_MAX)));
  if (found == mrs_.end()) throw Refused("no such memory region");
  return found->second;
}

ControlSession::Qp& ControlSession::queue_pair(const Json& request) {
  const auto found = qps_.find(static_cast<uint32_t>(required(request, "qp", UINT32_MAX)));
  if (found == qps_.end()) throw Refused("no such queue pair");
  return found->second;
}

// Only the address is made here: a length beyond the region is for the endpoint to refuse.
Sge ControlSession::sge(const Json& request) {
  const Mr& mr = region(request);
  return {mr.addr() + required(request, "offset", UINT32_MAX),
          static_cast<uint32_t>(required(request, "length", UINT32_MAX)), mr.keys.lkey};
}

nlohmann::json ControlSession::create_mr(const Json& request) {
  if (mrs_.size() >= kMaxObjects) throw Refused("too many memory regions");
  Mr mr;
  mr.length = static_cast<uint32_t>(required(request, "length", kMaxMrBytes));
  if (mr.length > kMaxMrTotal - mr_bytes_) throw Refused("too many bytes in memory regions");
  mr.words.resize(mr.length / 8 + 1);
  const uint32_t rights = rights_of(request, access::kAll);
  mr.keys = must(endpoint().command([&](Engine& engine, Time) {
    return engine.reg_mr(pd_, mr.addr(), mr.length, mr.addr(), rights);
  }),
                 "create_mr");
  mr_bytes_ += mr.length;
  const uint32_t id = next_id_++;
  const Json out = {{"mr", id}, {"addr", wide(mr.addr())}, {"rkey", mr.keys.rkey}};
  mrs_[id] = std::move(mr);
  return out;
}

// The bytes stay until the session ends: a burst may still name them.
nlohmann::json ControlSession::destroy_mr(const Json& request) {
  Mr& mr = region(request);
  must(endpoint().command([&](Engine& engine, Time) { return engine.dereg_mr(mr.keys.lkey); }), "destroy_mr");
  return Json::object();
}

nlohmann::json ControlSession::read_memory(const Json& request) {
  Mr& mr = region(request);
  const uint64_t offset = required(request, "offset", mr.length);
  const uint64_t length =
      required(request, "length", std::min<uint64_t>(kMaxMemoryPiece, mr.length - offset));
  // Under the endpoint's lock, so that nothing is placed meanwhile.
  return {{"bytes",
           endpoint().command([&](Engine&, Time) { return hex_of(mr.bytes().subspan(offset, length)); })}};
}

nlohmann::json ControlSession::write_memory(const Json& request) {
  Mr& mr = region(request);
  const uint64_t offset = required(request, "offset", mr.length);
  const auto bytes = bytes_of(request, "bytes", kMaxMemoryPiece);
  if (!bytes || bytes->size() > mr.length - offset) throw Refused("bytes: not bytes within the region");
  endpoint().command([&](Engine&, Time) {
    std::copy(bytes->begin(), bytes->end(), mr.bytes().begin() + static_cast<ptrdiff_t>(offset));
    return true;
  });
  return Json::object();
}

nlohmann::json ControlSession::create_srq(const Json& request) {
  if (srqs_.size() >= kMaxObjects) throw Refused("too many shared receive queues");
  const auto max_wr = static_cast<uint32_t>(required(request, "max_wr", kMaxWr));
  srqs_[next_id_] =
      must(endpoint().command([&](Engine& engine, Time) { return engine.create_srq(pd_, max_wr, 1, 0, 0); }),
           "create_srq");
  return {{"srq", next_id_++}};
}

nlohmann::json ControlSession::create_qp(const Json& request) {
  if (qps_.size() >= kMaxObjects) throw Refused("too many queue pairs");
  QpInit init;
  init.pd = pd_;
  init.cap = {static_cast<uint32_t>(required(request, "max_send_wr", kMaxWr)),
              static_cast<uint32_t>(required(request, "max_recv_wr", kMaxWr)), 1, 1, 0};
  if (request.contains("srq")) {
    const auto found = srqs_.find(static_cast<uint32_t>(required(request, "srq", UINT32_MAX)));
    if (found == srqs_.end()) throw Refused("no such shared receive queue");
    init.srq = found->second;
  }
  Qp qp;
  uint32_t qpn = 0;
  must(endpoint().command([&](Engine& engine, Time) -> Status {
    const auto cq = engine.create_cq(4096, 0);
    if (!cq) return fail(cq.error());
    init.send_cq = init.recv_cq = qp.cq = *cq;
    const auto made = engine.create_qp(init);
    if (!made) return fail(made.error());
    qp.handle = *made;
    qpn = engine.qp_num(qp.handle);
    return {};
  }),
       "create_qp");
  qps_[next_id_] = qp;
  return {{"qp", next_id_++}, {"qpn", qpn}};
}

namespace {

struct QpSteps {
  std::array<QpAttr, 3> attrs;
  size_t count = 3;
};
constexpr std::array<uint32_t, 3> kStepMasks = {
    qp_mask::kState | qp_mask::kPkeyIndex | qp_mask::kPort | qp_mask::kAccessFlags,
    qp_mask::kState | qp_mask::kAv | qp_mask::kPathMtu | qp_mask::kDestQpn | qp_mask::kRqPsn |
        qp_mask::kMaxDestRdAtomic | qp_mask::kMinRnrTimer,
    qp_mask::kState | qp_mask::kTimeout | qp_mask::kRetryCnt | qp_mask::kRnrRetry | qp_mask::kSqPsn |
        qp_mask::kMaxRdAtomic};

QpSteps steps_of(const json& request) {
  const auto remote = net::parse_address(text_of(request, "remote_address").value_or(""));
  if (!remote) throw Refused("remote_address: not an IP address");
  const std::string to = request.contains("to") ? text_of(request, "to").value_or("?") : "rts";
  if (to != "rts" && to != "rtr") throw Refused("to: neither rtr nor rts");
  QpAttr attr;
  attr.access_flags = rights_of(request, access::kAll);
  attr.dgid = *remote;
  attr.dest_qpn = static_cast<uint32_t>(required(request, "remote_qpn", 0xffffff));
  attr.sq_psn = static_cast<uint32_t>(required(request, "sq_psn", 0xffffff));
  attr.rq_psn = static_cast<uint32_t>(required(request, "rq_psn", 0xffffff));
  attr.timeout = static_cast<uint8_t>(number_or(request, "timeout", 31, 14));
  attr.retry_cnt = static_cast<uint8_t>(number_or(request, "retry_cnt", 7, 7));
  attr.rnr_retry = static_cast<uint8_t>(number_or(request, "rnr_retry", 7, 7));
  attr.min_rnr_timer = static_cast<uint8_t>(number_or(request, "min_rnr_timer", 31, 12));
  attr.max_rd_atomic = attr.max_dest_rd_atomic =
      static_cast<uint8_t>(number_or(request, "rd_atomic", 16, 16));
  QpSteps out;
  out.attrs.fill(attr);
  out.attrs[0].state = QpState::kInit;
  out.attrs[1].state = QpState::kRtr;
  out.attrs[2].state = QpState::kRts;
  out.count = to == "rts" ? 3 : 2;
  return out;
}

}  // namespace

nlohmann::json ControlSession::connect_qp(const Json& request) {
  const QpHandle qp = queue_pair(request).handle;
  const QpSteps steps = steps_of(request);
  for (size_t i = 0; i < steps.count; ++i) {
    must(endpoint().command([&](Engine& engine, Time now) {
      return engine.modify_qp(now, qp, steps.attrs[i], kStepMasks[i]);
    }),
         "connect_qp");
  }
  return Json::object();
}

nlohmann::json ControlSession::modify_qp(const Json& request) {
  const QpHandle qp = queue_pair(request).handle;
  const std::string state = text_of(request, "state").value_or("?");
  if (state != "reset" && state != "err") throw Refused("state: neither reset nor err");
  QpAttr attr;
  attr.state = state == "reset" ? QpState::kReset : QpState::kErr;
  must(endpoint().command(
           [&](Engine& engine, Time now) { return engine.modify_qp(now, qp, attr, qp_mask::kState); }),
       "modify_qp");
  return Json::object();
}

nlohmann::json ControlSession::query_qp(const Json& request) {
  const QpHandle qp = queue_pair(request).handle;
  const QpInfo info =
      must(endpoint().command([&](const Engine& engine, Time) { return engine.query_qp(qp); }), "query_qp");
  return {{"state", state_name(info.state)}};
}

nlohmann::json ControlSession::destroy_qp(const Json& request) {
  const QpHandle qp = queue_pair(request).handle;
  must(endpoint().command([&](Engine& engine, Time now) { return engine.destroy_qp(now, qp); }),
       "destroy_qp");
  qps_.erase(static_cast<uint32_t>(required(request, "qp", UINT32_MAX)));
  return Json::object();
}

nlohmann::json ControlSession::post_recv(const Json& request) {
  const std::array<Sge, 1> sges = {sge(request)};
  const RecvWr wr{required(request, "wr_id", UINT64_MAX), sges};
  if (request.contains("srq")) {
    const auto found = srqs_.find(static_cast<uint32_t>(required(request, "srq", UINT32_MAX)));
    if (found == srqs_.end()) throw Refused("no such shared receive queue");
    must(endpoint().command(
             [&](Engine& engine, Time now) { return engine.post_srq_recv(now, found->second, wr); }),
         "post_recv");
    return Json::object();
  }
  const QpHandle qp = queue_pair(request).handle;
  must(endpoint().command([&](Engine& engine, Time now) { return engine.post_recv(now, qp, wr); }),
       "post_recv");
  return Json::object();
}

nlohmann::json ControlSession::post_send(const Json& request) {
  const QpHandle qp = queue_pair(request).handle;
  const std::string op = text_of(request, "op").value_or("?");
  Work work;
  bool known = false;
  for (uint8_t i = 0; i <= static_cast<uint8_t>(WorkOp::kFetchAdd); ++i) {
    if (name_of(static_cast<WorkOp>(i)) != op) continue;
    work.op = static_cast<WorkOp>(i);
    known = true;
  }
  if (!known) throw Refused("op: unknown");
  work.wr_id = required(request, "wr_id", UINT64_MAX);
  work.length = static_cast<uint32_t>(required(request, "length", UINT32_MAX));
  work.remote_addr = wide_or(request, "remote_addr", 0);
  work.rkey = static_cast<uint32_t>(number_or(request, "rkey", UINT32_MAX, 0));
  work.imm = static_cast<uint32_t>(number_or(request, "imm", UINT32_MAX, 0));
  work.add = wide_or(request, "add", 0);
  work.compare = wide_or(request, "compare", 0);
  work.swap = wide_or(request, "swap", 0);
  work.fence = flag_of(request, "fence");
  work.solicited = flag_of(request, "solicited");
  work.unsignaled = flag_of(request, "unsignaled");
  SendWr wr = work_request(work);
  std::array<Sge, 1> sges{};
  if (work.length != 0) {
    sges[0] = sge(request);
    wr.sges = sges;
  }
  must(endpoint().command([&](Engine& engine, Time now) { return engine.post_send(now, qp, wr); }),
       "post_send");
  return Json::object();
}

nlohmann::json ControlSession::poll(const Json& request) {
  const CqHandle cq = queue_pair(request).cq;
  std::array<Wc, 64> found;
  const size_t most = number_or(request, "max", found.size(), found.size());
  const uint32_t count = endpoint().command(
      [&](Engine& engine, Time) { return engine.poll_cq(cq, std::span(found).first(most)); });
  Json list = Json::array();
  for (uint32_t i = 0; i < count; ++i) {
    const Completion done = completion_of(found[i]);
    Json one = {{"wr_id", done.wr_id},
                {"queue", done.receive ? "recv" : "send"},
                {"status", done.status},
                {"opcode", done.opcode},
                {"bytes", done.bytes}};
    if (done.imm) one["imm"] = *done.imm;
    list.push_back(std::move(one));
  }
  return {{"completions", std::move(list)}};
}

}  // namespace mroce::comply
