// The golden packets of docs/spec/golden.md, which a second implementation has made from the specification
// (tests/pyref): this codec reads from each what the other wrote, and writes the same bytes.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/wire/test_support.h"

namespace mroce::wire {
namespace {

using namespace test;
using nlohmann::json;

struct Vector {
  std::string name;
  Bytes bytes, body;  // as sent; without trailer
  Common header;
  json fields;
};

std::string hex(In bytes) {
  std::string out;
  for (const std::byte each : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    out += kDigits[static_cast<size_t>(each) >> 4];
    out += kDigits[static_cast<size_t>(each) & 15];
  }
  return out;
}

std::vector<Vector> read_vectors() {
  std::ifstream file(MROCE_GOLDEN_FILE);
  std::vector<Vector> all;
  for (const json& each : json::parse(file)) {
    Vector one;
    one.name = each.at("name");
    one.bytes = from_hex(each.at("hex").get<std::string>());
    one.body = one.bytes;
    one.body.resize(one.bytes.size() - std::min(one.bytes.size(), kTrailerBytes));
    one.fields = each.at("fields");
    all.push_back(std::move(one));
  }
  return all;
}

// They have TLVs that this codec skips, an END that it does not write, or TLVs in another order.
const std::set<std::string> kReadOnly{"init with unknown TLVs", "init_ack of mode 0 with unknown TLVs",
                                      "retry with a TLV",       "version with a TLV",
                                      "send with only END",     "ack everything",
                                      "probe_ack with a TLV",   "reset with a TLV"};

void expect_written(const Vector& v, const Bytes& bytes) {
  EXPECT_EQ(bytes == v.body, !kReadOnly.contains(v.name))
      << "wrote " << hex(bytes) << "\nfor   " << hex(v.body);
}

uint64_t number(const json& fields, const char* name) {
  return fields.at(name).get<uint64_t>();
}

void expect_header(const Vector& v) {
  const json& f = v.fields.at("header");
  EXPECT_EQ(v.header.version, number(f, "version"));
  EXPECT_EQ(static_cast<uint64_t>(v.header.type), number(f, "type"));
  EXPECT_EQ(v.header.flags, number(f, "flags"));
  EXPECT_EQ(v.header.path, number(f, "path"));
  EXPECT_EQ(v.header.epoch, number(f, "epoch"));
  EXPECT_EQ(v.header.dcid, number(f, "dcid"));
  EXPECT_EQ(v.header.pseq, number(f, "pseq"));
  EXPECT_EQ(v.header.ts, number(f, "ts"));
}

void expect_data(const Vector& v) {
  Data data;
  In payload;
  ASSERT_TRUE(decode_data(v.body, v.header, data, payload));
  const json& f = v.fields.at("body");
  EXPECT_EQ(static_cast<uint64_t>(data.op), number(f, "op"));
  EXPECT_EQ(data.cpsn, number(f, "cpsn"));
  EXPECT_EQ(data.stream, number(f, "stream"));
  EXPECT_EQ(data.backlog, number(f, "backlog"));
  EXPECT_EQ(data.msn, number(f, "msn"));
  EXPECT_EQ(data.offset, number(f, "offset"));
  EXPECT_EQ(data.length, number(f, "length"));
  EXPECT_EQ(data.va, number(f, "va"));
  EXPECT_EQ(data.rkey, number(f, "rkey"));
  EXPECT_EQ(data.rqsn, number(f, "rqsn"));
  EXPECT_EQ(data.imm, number(f, "imm"));
  EXPECT_EQ(data.rdslot, number(f, "rdslot"));
  EXPECT_EQ(static_cast<uint64_t>(data.status), number(f, "status"));
  EXPECT_EQ(data.compare, number(f, "compare"));
  EXPECT_EQ(data.operand, data.op == DataOp::kAtomicResp ? number(f, "original") : number(f, "operand"));
  if (!f.at("control").is_null()) {
    StreamControl control;
    ASSERT_TRUE(decode_stream_control(payload, control));
    const json& c = f.at("control");
    EXPECT_EQ(control.src_qpn, number(c, "src_qpn"));
    EXPECT_EQ(control.dst_qpn, number(c, "dst_qpn"));
    EXPECT_EQ(control.incarnation, number(c, "incarnation"));
  } else {
    EXPECT_EQ(Bytes(payload.begin(), payload.end()), from_hex(f.at("payload").get<std::string>()));
  }
  if (f.at("tlvs").empty()) {
    expect_written(v, encoded_data(v.header, data, payload));
  }
}

void expect_ack(const Vector& v) {
  Ack ack;
  ASSERT_TRUE(decode_ack(v.body, ack));
  const json& f = v.fields.at("body");
  EXPECT_EQ(ack.cack, number(f, "cack"));
  EXPECT_EQ(ack.cpsn_limit, number(f, "cpsn_limit"));
  EXPECT_EQ(ack.host_penalty, number(f, "host_penalty"));
  EXPECT_EQ(ack.nblocks, f.at("blocks").size());
  EXPECT_EQ(ack.nnaks, f.at("naks").size());
  EXPECT_EQ(ack.ncredits, f.at("credits").size());
  EXPECT_EQ(ack.nreclaims, f.at("reclaims").size());
  EXPECT_EQ(ack.has_port_status, !f.at("port_status").is_null());
  if (f.at("unknown").empty() || kReadOnly.contains(v.name)) {
    expect_written(v, encoded([&](Out out) { return encode_ack(v.header, ack, out); }));
  }
}

template <class Body, class Decode, class Encode>
void expect_same(const Vector& v, Decode&& decode, Encode&& encode) {
  Body body;
  ASSERT_TRUE(decode(v.body, body));
  expect_written(v, encoded([&](Out out) { return encode(v.header, body, out); }, 16384));
}

void expect_init(const Vector& v) {
  Init init;
  ASSERT_TRUE(decode_init(v.body, init));
  const json& f = v.fields.at("body");
  EXPECT_EQ(init.magic, number(f, "magic"));
  EXPECT_EQ(init.scid, number(f, "scid"));
  EXPECT_EQ(init.nonce, number(f, "nonce"));
  EXPECT_EQ(init.listen_port, number(f, "listen_port"));
  EXPECT_EQ(init.payload_mtu, number(f, "payload_mtu"));
  EXPECT_EQ(init.first_cpsn, number(f, "first_cpsn"));
  EXPECT_EQ(init.first_pseq, number(f, "first_pseq"));
  EXPECT_EQ(init.known_cid, number(f, "known_cid"));
  if (init.magic != kMagic) return;  // of another protocol no more is read
  const size_t size = v.body.size();
  expect_written(v, encoded([&](Out out) { return encode_init(v.header, init, size, out); }, size));
}

void expect_body(const Vector& v) {
  switch (v.header.type) {
    case Type::kInit:
    case Type::kInitAck:
      return expect_init(v);
    case Type::kData:
      return expect_data(v);
    case Type::kAck:
      return expect_ack(v);
    case Type::kProbe:
      return expect_same<Probe>(v, decode_probe, [&](const Common& header, const Probe& probe, Out out) {
        return encode_probe(header, probe, v.body.size(), out);
      });
    case Type::kProbeAck:
      return expect_same<ProbeAck>(v, decode_probe_ack, encode_probe_ack);
    case Type::kClose:
    case Type::kCloseAck:
      return expect_same<Close>(v, decode_close, encode_close);
    case Type::kReset:
      return expect_same<Reset>(v, decode_reset, encode_reset);
    case Type::kVersion:
      return expect_same<VersionList>(v, decode_version, encode_version);
    case Type::kRetry:
      return expect_same<Retry>(v, decode_retry, encode_retry);
    default:
      FAIL() << "a type that this codec does not know";
  }
}

TEST(GoldenFile, is_read_and_written_alike_by_both_implementations) {
  const std::vector<Vector> all = read_vectors();
  ASSERT_GE(all.size(), 100u);
  for (Vector v : all) {
    SCOPED_TRACE(v.name);
    ASSERT_GT(v.bytes.size(), kCommonBytes + kTrailerBytes);
    EXPECT_TRUE(check_trailer(v.bytes));
    ASSERT_TRUE(decode_common(v.body, v.header));
    expect_header(v);
    expect_body(v);
  }
}

}  // namespace
}  // namespace mroce::wire
