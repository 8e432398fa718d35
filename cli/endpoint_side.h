// One end of a measurement over mroce: an Endpoint with one RC queue pair and one registered buffer.
//
// This drives net::Endpoint directly, without the verbs library above it; what is measured here is the
// transport and its sockets. Failures are thrown (RoleFailed): these are only used inside the child processes
// of run_pair().
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/process_pair.h"
#include "core/rdma/types.h"
#include "net/endpoint.h"
#include "net/settings.h"

namespace mroce::cli {

struct RemoteEnd {  // what the other side needs to know
  uint32_t qp_num = 0;
  uint32_t rkey = 0;
  uint64_t addr = 0;
  std::string gid;  // 32 hexadecimal digits
};
nlohmann::json to_json(const RemoteEnd& end);
RemoteEnd remote_end_from(const nlohmann::json& value);

class EndpointSide {
 public:
  EndpointSide(const net::Settings& settings, size_t buffer_bytes, uint32_t depth);

  // One more queue pair on the same completion queue; 0 is the first. connect() brings it to RTS.
  QpHandle queue_pair(size_t index = 0) const { return qps_[index]; }
  void add_queue_pair();
  RemoteEnd local_end(size_t index = 0) const;
  void connect(const RemoteEnd& remote, size_t index = 0);

  // WRITE of `bytes` from the start of the buffer to `remote_offset` in the remote one.
  void post_write(const RemoteEnd& remote, uint32_t bytes, bool signaled, uint64_t remote_offset = 0,
                  size_t index = 0);
  // Completions that are there; any that is not a success is a failure.
  uint32_t poll(std::span<Wc> out);
  // Polls until `count` completions have come.
  void drain(uint32_t count);

  net::Endpoint& endpoint() { return *endpoint_; }
  std::span<std::byte> buffer() { return {buffer_.get(), buffer_bytes_}; }
  uint32_t depth() const { return depth_; }

 private:
  class Sink final : public net::EventSink {
   public:
    void on_event(const Event&) override {}
  };

  Sink sink_;
  size_t buffer_bytes_;
  uint32_t depth_;
  std::unique_ptr<std::byte[]> buffer_;
  std::unique_ptr<net::Endpoint> endpoint_;
  uint32_t sgid_index_ = 0;
  PdHandle pd_;
  CqHandle cq_;
  MrInfo mr_;
  std::vector<QpHandle> qps_;
};

// Connects the first queue pairs of both sides over the channel.
RemoteEnd connect_over(Channel& channel, EndpointSide& side);

}  // namespace mroce::cli
