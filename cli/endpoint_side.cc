#include "cli/endpoint_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace mroce::cli {
namespace {

using nlohmann::json;

constexpr uint32_t kFirstPsn = 1;
constexpr uint8_t kTimeout = 14;  // 67 ms
constexpr uint8_t kRetries = 7;
constexpr uint8_t kReadsInFlight = 16;

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) throw RoleFailed(fmt::format("{}: {}", what, sentence_of(result.error())));
  return *result;
}
void must(Status result, const char* what) {
  if (!result) throw RoleFailed(fmt::format("{}: {}", what, sentence_of(result.error())));
}

std::string hex_of(const Gid& gid) {
  std::string text;
  for (const uint8_t byte : gid.raw) text += fmt::format("{:02x}", byte);
  return text;
}

Gid gid_of(const std::string& hex) {
  Gid gid;
  if (hex.size() != 2 * gid.raw.size()) throw RoleFailed("a GID has 32 digits");
  for (size_t i = 0; i < gid.raw.size(); ++i) {
    gid.raw[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  return gid;
}

uint32_t index_of_loopback(const std::vector<net::GidEntry>& gids) {
  const auto found = std::find_if(gids.begin(), gids.end(), [](const net::GidEntry& entry) {
    return entry.gid.is_v4_mapped() && entry.gid.is_loopback();
  });
  if (found == gids.end())
    throw RoleFailed("127.0.0.1 is not in the GID table; bring loopback up: ip link set lo up");
  return static_cast<uint32_t>(found - gids.begin());
}

// The three steps from RESET to RTS with the attributes that each of them requires.
struct Step {
  QpAttr attr;
  uint32_t mask;
};

std::array<Step, 3> steps_to_rts(const RemoteEnd& remote, uint32_t sgid_index) {
  std::array<Step, 3> steps{};
  steps[0].attr.state = QpState::kInit;
  steps[0].attr.access_flags = access::kAll;
  steps[0].mask = qp_mask::kState | qp_mask::kPkeyIndex | qp_mask::kPort | qp_mask::kAccessFlags;
  steps[1].attr.state = QpState::kRtr;
  steps[1].attr.sgid_index = sgid_index;
  steps[1].attr.dgid = gid_of(remote.gid);
  steps[1].attr.dest_qpn = remote.qp_num;
  steps[1].attr.rq_psn = kFirstPsn;
  steps[1].attr.max_dest_rd_atomic = kReadsInFlight;
  steps[1].attr.min_rnr_timer = 1;
  steps[1].mask = qp_mask::kState | qp_mask::kAv | qp_mask::kPathMtu | qp_mask::kDestQpn | qp_mask::kRqPsn |
                  qp_mask::kMaxDestRdAtomic | qp_mask::kMinRnrTimer;
  steps[2].attr.state = QpState::kRts;
  steps[2].attr.sq_psn = kFirstPsn;
  steps[2].attr.timeout = kTimeout;
  steps[2].attr.retry_cnt = kRetries;
  steps[2].attr.rnr_retry = kRetries;
  steps[2].attr.max_rd_atomic = kReadsInFlight;
  steps[2].mask = qp_mask::kState | qp_mask::kSqPsn | qp_mask::kTimeout | qp_mask::kRetryCnt |
                  qp_mask::kRnrRetry | qp_mask::kMaxRdAtomic;
  return steps;
}

}  // namespace

json to_json(const RemoteEnd& end) {
  return {{"qp_num", end.qp_num}, {"rkey", end.rkey}, {"addr", end.addr}, {"gid", end.gid}};
}

RemoteEnd remote_end_from(const json& value) {
  return {value.at("qp_num"), value.at("rkey"), value.at("addr"), value.at("gid")};
}

EndpointSide::EndpointSide(const net::Settings& settings, size_t buffer_bytes, uint32_t depth)
    : buffer_bytes_(buffer_bytes), depth_(depth), buffer_(std::make_unique<std::byte[]>(buffer_bytes)) {
  auto opened = net::Endpoint::open(settings, sink_);
  if (!opened) throw RoleFailed(opened.error());
  endpoint_ = std::move(*opened);
  sgid_index_ = index_of_loopback(endpoint_->gids());
  const auto addr = reinterpret_cast<uint64_t>(buffer_.get());
  pd_ = must(endpoint_->command([](Engine& engine, Time) { return engine.alloc_pd(); }), "alloc_pd");
  cq_ = must(endpoint_->command([&](Engine& engine, Time) { return engine.create_cq(2 * depth_, 0); }),
             "create_cq");
  mr_ = must(endpoint_->command([&](Engine& engine, Time) {
    return engine.reg_mr(pd_, addr, buffer_bytes_, addr, access::kAll);
  }),
             "reg_mr");
  add_queue_pair();
}

void EndpointSide::add_queue_pair() {
  QpInit init;
  init.pd = pd_;
  init.send_cq = cq_;
  init.recv_cq = cq_;
  init.cap = {depth_, 1, 1, 1, 0};
  qps_.push_back(
      must(endpoint_->command([&](Engine& engine, Time) { return engine.create_qp(init); }), "create_qp"));
}

RemoteEnd EndpointSide::local_end(size_t index) const {
  const uint32_t number =
      endpoint_->inspect([&](const Engine& engine) { return engine.qp_num(qps_[index]); });
  return {number, mr_.rkey, reinterpret_cast<uint64_t>(buffer_.get()),
          hex_of(endpoint_->gids()[sgid_index_].gid)};
}

void EndpointSide::connect(const RemoteEnd& remote, size_t index) {
  for (const Step& step : steps_to_rts(remote, sgid_index_)) {
    must(endpoint_->command([&](Engine& engine, Time now) {
      return engine.modify_qp(now, qps_[index], step.attr, step.mask);
    }),
         "modify_qp");
  }
}

void EndpointSide::post_write(const RemoteEnd& remote, uint32_t bytes, bool signaled, uint64_t remote_offset,
                              size_t index) {
  const std::array<Sge, 1> sges{{{reinterpret_cast<uint64_t>(buffer_.get()), bytes, mr_.lkey}}};
  SendWr wr;
  wr.opcode = Opcode::kWrite;
  wr.flags = signaled ? send_flag::kSignaled : 0;
  wr.sges = sges;
  wr.remote_addr = remote.addr + remote_offset;
  wr.rkey = remote.rkey;
  must(endpoint_->command([&](Engine& engine, Time now) { return engine.post_send(now, qps_[index], wr); }),
       "post_send");
}

uint32_t EndpointSide::poll(std::span<Wc> out) {
  const uint32_t count = endpoint_->poll_cq(cq_, out);
  for (uint32_t i = 0; i < count; ++i) {
    if (out[i].status != WcStatus::kSuccess) {
      throw RoleFailed(fmt::format("a completion has status {}", static_cast<int>(out[i].status)));
    }
  }
  return count;
}

void EndpointSide::drain(uint32_t count) {
  std::array<Wc, 16> wcs;
  while (count > 0) count -= std::min(count, poll(wcs));
}

RemoteEnd connect_over(Channel& channel, EndpointSide& side) {
  channel.send(to_json(side.local_end()));
  const RemoteEnd remote = remote_end_from(channel.receive());
  side.connect(remote);
  channel.send("connected");
  channel.receive();
  return remote;
}

}  // namespace mroce::cli
