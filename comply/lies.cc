// The lies. Each is one wrong implementation; see comply/lying_target.h.
#include <algorithm>

#include "comply/lying_target.h"
#include "core/wire/field_table.h"

namespace mroce::comply {
namespace {

using wire::DataOp;
using wire::get;
using wire::put;
using wire::Tlv;
using wire::Type;
namespace at = wire::at;

constexpr bool kSends = true, kSees = false;

// ---- parts of datagrams

bool is_ack(const Told& told) {
  return told.is(Type::kAck) && told.bytes.size() >= wire::kAckBytes;
}
bool is_init(const Told& told) {
  return told.is(Type::kInit) && told.bytes.size() >= wire::end_of::init;
}
bool is_init_ack(const Told& told) {
  return told.is(Type::kInitAck) && told.bytes.size() >= wire::end_of::init;
}
bool is_control(const Told& told, DataOp op) {
  return told.is(op) && told.bytes.size() >= wire::kDataBytes + wire::kStreamControlBytes;
}
std::byte* control_of(Told& told) {
  return told.bytes.data() + wire::kDataBytes;
}

template <class Change>
void each_block(Told& told, Change change) {
  if (!is_ack(told)) return;
  const size_t blocks = get<at::ack::nblocks>(told.bytes.data());
  for (size_t i = 0; i < blocks && wire::kAckBytes + (i + 1) * wire::kPathBlockBytes <= told.bytes.size();
       ++i) {
    change(told.bytes.data() + wire::kAckBytes + i * wire::kPathBlockBytes);
  }
}

// change(value) for every TLV of this kind on an ACK; false: it is taken out.
template <class Change>
void each_tlv(Told& told, Tlv wanted, Change change) {
  if (!is_ack(told)) return;
  size_t from = wire::kAckBytes + get<at::ack::nblocks>(told.bytes.data()) * wire::kPathBlockBytes;
  while (from + 2 <= told.bytes.size()) {
    const size_t length = std::to_integer<size_t>(told.bytes[from + 1]);
    if (from + 2 + length > told.bytes.size()) return;
    const bool keep = static_cast<Tlv>(told.bytes[from]) != wanted || change(told.bytes.data() + from + 2);
    if (keep) {
      from += 2 + length;
    } else {
      const auto begin = told.bytes.begin() + static_cast<std::ptrdiff_t>(from);
      told.bytes.erase(begin, begin + static_cast<std::ptrdiff_t>(2 + length));
    }
  }
}
void without_tlv(Told& told, Tlv unwanted) {
  each_tlv(told, unwanted, [](std::byte*) { return false; });
}

template <wire::Field kField>
void add(std::byte* base, int by) {
  put<kField>(base,
              static_cast<wire::UintOf<kField>>(get<kField>(base) + static_cast<wire::UintOf<kField>>(by)));
}

void reverse(std::byte* first, size_t bytes) {
  std::reverse(first, first + bytes);
}

uint32_t dcid_of(const Told& told) {
  return get<at::common::dcid>(told.bytes.data());
}

// The first value that this field had for each connection, for ever.
template <wire::Field kField>
void freeze(Told& told, std::byte* base, uint32_t salt) {
  const auto [first, fresh] = told.memories.numbers.try_emplace(dcid_of(told) ^ salt, get<kField>(base));
  put<kField>(base, first->second);
}

bool has_payload(const Told& told) {
  return told.is_data() && told.op() <= DataOp::kReadResp && told.op() != DataOp::kReadReq &&
         told.bytes.size() > wire::header_bytes(told.op());
}
bool is_send(const Told& told) {
  return told.is(DataOp::kSend) || told.is(DataOp::kSendImm) || told.is(DataOp::kSendInv);
}

// Sets one word of the vector, or all.
void shift_vector(std::byte* block) {
  bool carry = false;
  for (size_t word = 0; word < 4; ++word) {
    std::byte* const place = block + 8 + 8 * word;
    const uint64_t value = wire::load_be<uint64_t>(place);
    wire::store_be<uint64_t>(place, value << 1 | (carry ? 1 : 0));
    carry = value >> 63 != 0;
  }
}

void swap_words(std::byte* block) {
  for (size_t word = 0; word < 2; ++word) {
    std::swap_ranges(block + 8 + 8 * word, block + 16 + 8 * word, block + 8 + 8 * (3 - word));
  }
}

// Makes a VOID of a DATA packet: as if its content were ignored.
void hollow(Told& told) {
  told.bytes[22] = static_cast<std::byte>(DataOp::kVoid);
  put<at::data::offset>(told.bytes.data(), 0);
  put<at::data::length>(told.bytes.data(), 0);
  told.bytes.resize(wire::kDataBytes);
}

constexpr Lie kLies[] = {
    // ---- §3: packets
    {"trailer-not-inverted", "3.12", "The CRC is sent without its final inversion.", kSends,
     [](Told& told) { told.trailer_is_wrong = true; }},
    {"bad-trailer-believed", "3.12", "The trailer is not checked.", kSees,
     [](Told& told) { told.trailer_was_right = true; }},
    {"reserved-flag-set", "3.1", "The reserved bit of the flags is sent as 1.", kSends,
     [](Told& told) { told.bytes[1] |= std::byte{1}; }},
    {"reserved-flag-refused", "3.1", "A datagram with the reserved bit set is dropped.", kSees,
     [](Told& told) { told.swallowed = told.has_flag(0x01); }},
    {"reserved-block-field-set", "3.1", "The reserved bytes of path blocks are not zero.", kSends,
     [](Told& told) { each_block(told, [](std::byte* block) { block[54] = std::byte{0xaa}; }); }},
    {"any-version-taken", "3.13", "The version is not looked at.", kSees,
     [](Told& told) { told.bytes[0] = (told.bytes[0] & std::byte{0x0f}) | std::byte{0x10}; }},
    {"version-unanswered", "4.12", "An INIT of an unknown version gets no answer.", kSends,
     [](Told& told) { told.swallowed = told.is(Type::kVersion); }},
    {"version-lists-nothing", "4.12", "VERSION lists versions that are not spoken.", kSends,
     [](Told& told) {
       if (told.is(Type::kVersion) && told.bytes.size() >= 21) told.bytes[20] = std::byte{7};
     }},
    {"unknown-opcode-taken", "3.4", "An opcode that does not exist counts as VOID.", kSees,
     [](Told& told) {
       if (told.is_data() && !wire::is_known(told.op())) hollow(told);
     }},
    {"unknown-type-taken", "3.3", "Every unknown type of datagram counts as PROBE.", kSees,
     [](Told& told) {
       if (static_cast<uint8_t>(told.type()) > 12 || told.is(Type::kCm))
         told.bytes[0] = std::byte{0x10} | static_cast<std::byte>(Type::kProbe);
     }},
    {"extension-not-skipped", "3.8", "TLVs in front of a payload are taken for payload.", kSees,
     [](Told& told) {
       if (told.is_data()) told.bytes[1] &= ~static_cast<std::byte>(wire::flag::kExtension);
     }},
    {"unknown-tlv-refused", "3.8", "An ACK with a TLV that is unknown is dropped.", kSees,
     [](Told& told) {
       for (unsigned type = 7; type < 256; ++type)
         each_tlv(told, static_cast<Tlv>(type), [&](std::byte*) { return told.swallowed = true; });
     }},
    {"control-too-long", "3.5", "Stream control has 36 bytes.", kSends,
     [](Told& told) {
       if (told.is_data() && wire::is_stream_control(told.op())) told.bytes.resize(told.bytes.size() + 4);
     }},
    {"short-init-taken", "3.13", "An INIT may have any size.", kSees,
     [](Told& told) {
       if (told.is(Type::kInit) && told.bytes.size() < wire::kMinInitBytes)
         told.bytes.resize(wire::kMinInitBytes - wire::kTrailerBytes);
     }},
    {"data-not-ect", "3.1", "DATA is not marked ECN-capable.", kSends,
     [](Told& told) { told.ecn = Ecn::kNotEct; }},
    {"everything-ect", "3.1", "All datagrams are marked ECN-capable.", kSends,
     [](Told& told) { told.ecn = Ecn::kEct0; }},
    {"length-little-endian", "3.1", "The length of messages is sent in little-endian order.", kSends,
     [](Told& told) {
       if (told.is_data()) reverse(told.bytes.data() + 32, 4);
     }},
    {"va-of-the-payload", "3.4", "VA is the address of this payload, not of the message.", kSends,
     [](Told& told) {
       if (told.is(DataOp::kWrite) || told.is(DataOp::kWriteImm))
         put<at::ext_write::va>(told.bytes.data(), get<at::ext_write::va>(told.bytes.data()) +
                                                       get<at::data::offset>(told.bytes.data()));
     }},
    {"length-of-the-payload", "3.4", "The length is that of the packet, not of the message.", kSends,
     [](Told& told) {
       if (has_payload(told))
         put<at::data::length>(told.bytes.data(),
                               static_cast<uint32_t>(told.bytes.size() - wire::header_bytes(told.op())));
     }},
    {"own-stream-number", "3.4", "DATA names a stream of the sender.", kSends,
     [](Told& told) {
       if (told.is_data()) add<at::data::stream>(told.bytes.data(), 1);
     }},
    {"immediate-swapped", "3.6", "The bytes of an immediate change their order.", kSends,
     [](Told& told) {
       if (told.is(DataOp::kWriteImm)) reverse(told.bytes.data() + 52, 4);
       if (told.is(DataOp::kSendImm)) reverse(told.bytes.data() + 40, 4);
     }},
    {"immediate-swapped-on-arrival", "3.6", "The bytes of an immediate that arrives change their order.", kSees,
     [](Told& told) {
       if (told.is(DataOp::kWriteImm)) reverse(told.bytes.data() + 52, 4);
       if (told.is(DataOp::kSendImm)) reverse(told.bytes.data() + 40, 4);
     }},
    {"operand-swapped", "3.6", "The operands of atomics are taken in the wrong order of bytes.", kSees,
     [](Told& told) {
       if (told.is(DataOp::kFetchAdd) || told.is(DataOp::kCompareSwap)) reverse(told.bytes.data() + 52, 8);
     }},

    // ---- §4: connections
    {"init-not-padded", "4.3", "INIT is as short as its body.", kSends,
     [](Told& told) {
       if (is_init(told)) told.bytes.resize(wire::end_of::init + 24 * get<at::init::nports>(told.bytes.data()));
     }},
    {"init-ack-larger", "4.4", "INIT_ACK is larger than the INIT.", kSends,
     [](Told& told) {
       if (is_init_ack(told)) told.bytes.resize(told.bytes.size() + 64);
     }},
    {"init-ack-short", "4.4", "INIT_ACK is not padded.", kSends,
     [](Told& told) {
       if (is_init_ack(told)) told.bytes.resize(wire::end_of::init + 24 * get<at::init::nports>(told.bytes.data()));
     }},
    {"nonce-not-repeated", "4.4", "INIT_ACK has a nonce of its own.", kSends,
     [](Told& told) {
       if (is_init_ack(told)) add<at::init::nonce>(told.bytes.data(), 1);
     }},
    {"any-nonce-taken", "4.5", "An INIT_ACK need not repeat the nonce.", kSees,
     [](Told& told) {
       if (is_init_ack(told)) put<at::init::nonce>(told.bytes.data(), told.memories.nonce);
     }},
    {"own-payload-mtu", "4.4", "INIT_ACK tells the acceptor's payload MTU, not the smaller one.", kSends,
     [](Told& told) {
       if (is_init_ack(told)) put<at::init::payload_mtu>(told.bytes.data(), 4096);
     }},
    {"own-window", "4.4", "INIT_ACK tells the acceptor's CPSN window, not the smaller one.", kSends,
     [](Told& told) {
       if (is_init_ack(told)) put<at::init::cpsn_window>(told.bytes.data(), 1u << 20);
     }},
    {"mode-as-mask", "4.4", "INIT_ACK repeats the mask of security modes.", kSends,
     [](Told& told) {
       if (is_init_ack(told)) put<at::init::security>(told.bytes.data(), 1);
     }},
    {"init-ack-for-scid-zero", "4.4", "An INIT with SCID 0 is taken.", kSees,
     [](Told& told) {
       if (is_init(told) && get<at::init::scid>(told.bytes.data()) == 0)
         put<at::init::scid>(told.bytes.data(), 0x5eed);
     }},
    {"magic-not-checked", "4.4", "The magic is not looked at.", kSees,
     [](Told& told) {
       if (is_init(told)) put<at::init::magic>(told.bytes.data(), wire::kMagic);
     }},
    {"repeated-init-ignored", "4.4", "INIT_ACK is sent once only.", kSees,
     [](Told& told) {
       if (is_init(told)) told.swallowed = ++told.memories.numbers[get<at::init::scid>(told.bytes.data())] > 1;
     }},
    {"scid-changes", "4.4", "Every INIT_ACK for one INIT names another connection id.", kSends,
     [](Told& told) {
       if (is_init_ack(told)) add<at::init::scid>(told.bytes.data(), static_cast<int>(told.memories.count++));
     }},
    {"any-id-taken", "3.13", "A datagram for an unknown DCID belongs to some connection.", kSees,
     [](Told& told) {
       if (!told.is(Type::kInit) && told.memories.target_id != 0)
         put<at::common::dcid>(told.bytes.data(), told.memories.target_id);
     }},
    {"source-address-decides", "3.13", "Datagrams of a connection from another address are dropped.", kSees,
     [](Told& told) { told.swallowed = told.from_stranger; }},
    {"any-reset-taken", "4.11", "RESET works with any token.", kSees,
     [](Told& told) {
       if (told.is(Type::kReset) && told.bytes.size() >= wire::end_of::reset)
         wire::put_bytes<at::reset::token>(told.bytes.data(), told.memories.reset_token);
     }},
    {"reset-ignored", "4.11", "RESET does nothing.", kSees,
     [](Told& told) { told.swallowed = told.is(Type::kReset); }},
    {"any-close-taken", "4.10", "CLOSE works with any CACK.", kSees,
     [](Told& told) {
       if (told.is(Type::kClose) && told.bytes.size() >= wire::end_of::close)
         put<at::close::cack>(told.bytes.data(), told.memories.next_cpsn);
     }},
    {"close-unanswered", "4.10", "CLOSE gets no CLOSE_ACK.", kSends,
     [](Told& told) { told.swallowed = told.is(Type::kCloseAck); }},
    {"close-never-sent", "4.10", "An endpoint that ends says nothing.", kSends,
     [](Told& told) { told.swallowed = told.is(Type::kClose); }},
    {"close-with-first-cack", "4.10", "CLOSE does not carry the final CACK.", kSends,
     [](Told& told) {
       if (told.is(Type::kClose)) add<at::close::cack>(told.bytes.data(), -1);
     }},
    {"keepalive-never-sent", "4.9", "An idle connection is not asked for a sign of life.", kSends,
     [](Told& told) {
       told.swallowed = told.is(Type::kProbe) && told.bytes.size() >= wire::end_of::probe &&
                        get<at::probe::kind>(told.bytes.data()) == 0;
     }},

    // ---- §5: reliability
    {"sack-shifted", "5.6", "The vector is shifted by one.", kSends,
     [](Told& told) { each_block(told, shift_vector); }},
    {"sack-words-reversed", "5.6", "The words of the vector are in the wrong order.", kSends,
     [](Told& told) { each_block(told, swap_words); }},
    {"sack-of-holes", "5.6", "The vector says that everything came.", kSends,
     [](Told& told) { each_block(told, [](std::byte* block) { std::fill(block + 8, block + 40, std::byte{0xff}); }); }},
    {"sack-empty", "5.6", "The vector is empty.", kSends,
     [](Told& told) { each_block(told, [](std::byte* block) { std::fill(block + 8, block + 40, std::byte{0}); }); }},
    {"largest-one-more", "5.6", "LARGEST is one too high.", kSends,
     [](Told& told) { each_block(told, [](std::byte* block) { add<at::path_block::largest>(block, 1); }); }},
    {"block-of-another-path", "5.6", "A path block names the wrong path.", kSends,
     [](Told& told) { each_block(told, [](std::byte* block) { block[0] ^= std::byte{1}; }); }},
    {"rx-count-stands-still", "5.6", "RX count does not grow.", kSends,
     [](Told& told) {
       each_block(told, [&](std::byte* block) { freeze<at::path_block::rx_count>(told, block, 0x1000u + std::to_integer<uint32_t>(block[0])); });
     }},
    {"ce-not-counted", "5.6", "CE marks are not counted.", kSends,
     [](Told& told) { each_block(told, [](std::byte* block) { put<at::path_block::ce_count>(block, 0); }); }},
    {"ce-not-seen", "5.4", "The ECN field of what arrives is not read.", kSees,
     [](Told& told) { told.ecn = Ecn::kNotEct; }},
    {"ts-echo-zero", "5.6", "TS is not echoed.", kSends,
     [](Told& told) { each_block(told, [](std::byte* block) { put<at::path_block::ts_echo>(block, 0); }); }},
    {"ack-delay-capped", "5.6", "Every ACK delay is the greatest.", kSends,
     [](Told& told) { each_block(told, [](std::byte* block) { put<at::path_block::ack_delay>(block, 0xffff); }); }},
    {"cack-ahead", "5.6", "CACK is one too high.", kSends,
     [](Told& told) {
       if (is_ack(told)) add<at::ack::cack>(told.bytes.data(), 1);
     }},
    {"cack-stands-still", "5.6", "CACK does not move.", kSends,
     [](Told& told) {
       if (is_ack(told)) freeze<at::ack::cack>(told, told.bytes.data(), 1);
     }},
    {"limit-stands-still", "5.2", "The CPSN limit does not move.", kSends,
     [](Told& told) {
       if (is_ack(told)) freeze<at::ack::cpsn_limit>(told, told.bytes.data(), 2);
     }},
    {"limit-too-far", "5.2", "The CPSN limit promises more than the window.", kSends,
     [](Told& told) {
       if (is_ack(told)) add<at::ack::cpsn_limit>(told.bytes.data(), 100000);
     }},
    {"pseq-reused", "5.1", "A retransmission carries a PSEQ that was used before.", kSends,
     [](Told& told) {
       if (told.is_data() && told.has_flag(wire::flag::kRetransmit)) add<at::common::pseq>(told.bytes.data(), -1);
     }},
    {"pseq-with-holes", "5.1", "PSEQ grows by two.", kSends,
     [](Told& told) {
       if (told.is_data()) put<at::common::pseq>(told.bytes.data(), 2 * get<at::common::pseq>(told.bytes.data()));
     }},
    {"one-numbering", "5.1", "Every datagram that is not DATA has the same PSEQ.", kSends,
     [](Told& told) {
       if (!told.is_data()) freeze<at::common::pseq>(told, told.bytes.data(), 3);
     }},
    {"cpsn-changes", "5.1", "A retransmission has another CPSN.", kSends,
     [](Told& told) {
       if (told.is_data() && told.has_flag(wire::flag::kRetransmit)) add<at::data::cpsn>(told.bytes.data(), 1000);
     }},
    {"never-retransmits", "5.12", "What was lost is not sent again.", kSends,
     [](Told& told) { told.swallowed = told.is_data() && told.has_flag(wire::flag::kRetransmit); }},
    {"ack-request-ignored", "5.5", "AR does nothing.", kSees,
     [](Told& told) {
       if (told.is_data()) told.bytes[1] &= ~static_cast<std::byte>(wire::flag::kAckRequest);
     }},
    {"never-acknowledges", "5.5", "No ACK is ever sent.", kSends,
     [](Told& told) { told.swallowed = told.is(Type::kAck); }},
    {"nak-swallowed", "5.16", "A refused packet is not reported.", kSends,
     [](Told& told) { without_tlv(told, Tlv::kNak); }},
    {"nak-of-the-next", "5.16", "A NAK names the packet behind the refused one.", kSends,
     [](Told& told) {
       each_tlv(told, Tlv::kNak, [](std::byte* value) { return add<at::nak::cpsn>(value, 1), true; });
     }},
    {"nak-always-invalid", "5.16", "Every NAK has the code INVALID.", kSends,
     [](Told& told) {
       each_tlv(told, Tlv::kNak, [](std::byte* value) {
         value[4] = static_cast<std::byte>(wire::NakCode::kInvalid);
         return true;
       });
     }},
    {"nak-ignored", "5.16", "NAKs are not looked at.", kSees, [](Told& told) { without_tlv(told, Tlv::kNak); }},

    // ---- §6, §7: congestion, paths
    {"penalty-ignored", "6.9", "The host penalty is not looked at.", kSees,
     [](Told& told) {
       if (is_ack(told)) put<at::ack::host_penalty>(told.bytes.data(), 0);
     }},
    {"marks-ignored", "6.4", "The CE counts of ACKs are not looked at.", kSees,
     [](Told& told) { each_block(told, [](std::byte* block) { put<at::path_block::ce_count>(block, 0); }); }},
    {"hints-ignored", "6.10", "Rate hints are not looked at.", kSees,
     [](Told& told) { each_block(told, [](std::byte* block) { put<at::path_block::rate>(block, 0); }); }},
    {"probe-unanswered", "7.3", "PROBE gets no answer.", kSends,
     [](Told& told) { told.swallowed = told.is(Type::kProbeAck); }},
    {"wrong-token", "7.3", "PROBE_ACK has another token.", kSends,
     [](Told& told) {
       if (told.is(Type::kProbeAck)) add<at::probe_ack::token>(told.bytes.data(), 1);
     }},
    {"probe-ack-padded", "7.3", "PROBE_ACK is longer than the PROBE.", kSends,
     [](Told& told) {
       if (told.is(Type::kProbeAck)) {
         told.bytes[1] |= static_cast<std::byte>(wire::flag::kExtension);
         told.bytes.resize(8000);
       }
     }},
    {"challenge-not-padded", "7.3", "A path challenge is small.", kSends,
     [](Told& told) {
       if (told.is(Type::kProbe)) told.bytes.resize(wire::end_of::probe);
     }},
    {"one-token", "7.3", "All challenges have the same token.", kSends,
     [](Told& told) {
       if (told.is(Type::kProbe)) put<at::probe::token>(told.bytes.data(), 42);
     }},
    {"any-token-taken", "7.3", "A PROBE_ACK need not repeat the token.", kSees,
     [](Told& told) {
       if (told.is(Type::kProbeAck)) put<at::probe_ack::token>(told.bytes.data(), 42);
     }},
    {"port-status-silent", "7.5", "The loss of a link is not told.", kSends,
     [](Told& told) { without_tlv(told, Tlv::kPortStatus); }},
    {"port-status-ignored", "7.5", "PORT_STATUS is not looked at.", kSees,
     [](Told& told) { without_tlv(told, Tlv::kPortStatus); }},
    {"one-path", "7.1", "All data goes by one path number.", kSends,
     [](Told& told) {
       if (told.is_data()) put<at::common::path>(told.bytes.data(), 0);
     }},

    // ---- §8: streams
    {"accept-of-another-life", "8.3", "STREAM_ACCEPT names another incarnation.", kSends,
     [](Told& told) {
       if (is_control(told, DataOp::kStreamAccept)) add<at::stream_control::incarnation>(control_of(told), 1);
     }},
    {"accept-without-credit", "8.10", "STREAM_ACCEPT grants nothing, whatever is posted.", kSends,
     [](Told& told) {
       if (is_control(told, DataOp::kStreamAccept)) put<at::stream_control::credit_limit>(control_of(told), 0);
       without_tlv(told, Tlv::kRqCredit);
     }},
    {"accepts-any-psn", "8.3", "The PSN of STREAM_OPEN is not compared.", kSees,
     [](Told& told) {
       if (is_control(told, DataOp::kStreamOpen)) put<at::stream_control::sq_psn>(control_of(told), 0x4321);
     }},
    {"opens-with-wrong-psn", "8.3", "STREAM_OPEN carries another PSN than that of the queue pair.", kSends,
     [](Told& told) {
       if (is_control(told, DataOp::kStreamOpen)) add<at::stream_control::sq_psn>(control_of(told), 1);
     }},
    {"refuses-without-reason", "8.4", "STREAM_REFUSE does not say why.", kSends,
     [](Told& told) {
       if (is_control(told, DataOp::kStreamRefuse)) put<at::stream_control::reason>(control_of(told), 0);
     }},
    {"stop-without-code", "8.9", "STREAM_STOP does not say what was wrong.", kSends,
     [](Told& told) {
       if (is_control(told, DataOp::kStreamStop)) put<at::stream_control::code>(control_of(told), 0);
     }},
    {"stop-not-sent", "8.9", "A receiver that stops does not tell.", kSends,
     [](Told& told) {
       if (is_control(told, DataOp::kStreamStop)) hollow(told);
     }},
    {"stop-ignored", "8.9", "STREAM_STOP does nothing.", kSees,
     [](Told& told) {
       if (is_control(told, DataOp::kStreamStop)) hollow(told);
     }},
    {"close-of-stream-ignored", "8.8", "STREAM_CLOSE does nothing.", kSees,
     [](Told& told) {
       if (is_control(told, DataOp::kStreamClose)) hollow(told);
     }},
    {"credit-one-more", "8.10", "One more credit is granted than receives are posted.", kSends,
     [](Told& told) {
       each_tlv(told, Tlv::kRqCredit, [](std::byte* value) { return add<at::rq_credit::limit>(value, 1), true; });
       if (is_control(told, DataOp::kStreamAccept)) add<at::stream_control::credit_limit>(control_of(told), 1);
     }},
    {"credit-of-another-life", "8.10", "RQ_CREDIT names another incarnation.", kSends,
     [](Told& told) {
       each_tlv(told, Tlv::kRqCredit, [](std::byte* value) { return add<at::rq_credit::incarnation>(value, 1), true; });
     }},
    {"credit-ignored", "8.10", "RQ_CREDIT is not looked at.", kSees,
     [](Told& told) { without_tlv(told, Tlv::kRqCredit); }},

    // ---- §9: operations
    {"rqsn-from-one", "9.3", "RQSN begins at 1.", kSends,
     [](Told& told) {
       if (is_send(told)) add<at::ext_send::rqsn>(told.bytes.data(), 1);
       if (told.is(DataOp::kWriteImm)) add<at::ext_write_imm::rqsn>(told.bytes.data(), 1);
     }},
    {"msn-from-one", "9.3", "MSN begins at 1.", kSends,
     [](Told& told) {
       if (told.is_data() && !wire::is_stream_control(told.op()) && told.op() != DataOp::kReadResp &&
           told.op() != DataOp::kAtomicResp)
         add<at::data::msn>(told.bytes.data(), 1);
     }},
    {"rdslot-not-repeated", "9.8", "A response does not repeat the slot of its request.", kSends,
     [](Told& told) {
       if (told.is(DataOp::kReadResp)) add<at::ext_read_resp::rdslot>(told.bytes.data(), 1);
       if (told.is(DataOp::kAtomicResp)) add<at::ext_atomic_resp::rdslot>(told.bytes.data(), 1);
     }},
    {"read-offset-zero", "9.8", "All packets of a READ's response have offset 0.", kSends,
     [](Told& told) {
       if (told.is(DataOp::kReadResp)) put<at::data::offset>(told.bytes.data(), 0);
     }},
    {"original-after", "9.9", "ATOMIC_RESP carries another value than the one before the operation.", kSends,
     [](Told& told) {
       if (told.is(DataOp::kAtomicResp)) add<at::ext_atomic_resp::original>(told.bytes.data(), 1);
     }},
    {"failed-read-succeeds", "9.8", "The response of a READ that failed has status 0.", kSends,
     [](Told& told) {
       if (told.is(DataOp::kReadResp)) put<at::ext_read_resp::status>(told.bytes.data(), 0);
     }},
    {"compare-ignored", "9.9", "COMPARE_SWAP stores always: as FETCH_ADD it adds.", kSees,
     [](Told& told) {
       if (told.is(DataOp::kCompareSwap)) told.bytes[22] = static_cast<std::byte>(DataOp::kFetchAdd);
     }},
    {"write-shifted", "9.2", "A WRITE lands one byte further.", kSees,
     [](Told& told) {
       if (told.is(DataOp::kWrite)) add<at::ext_write::va>(told.bytes.data(), 1);
     }},
    {"solicited-lost", "9.3", "The solicited flag is not sent.", kSends,
     [](Told& told) {
       if (told.is_data()) told.bytes[1] &= ~static_cast<std::byte>(wire::flag::kSolicited);
     }},
    {"immediate-lost", "9.3", "A SEND_IMM is taken for a SEND.", kSees,
     [](Told& told) {
       if (told.is(DataOp::kSendImm)) told.bytes[22] = static_cast<std::byte>(DataOp::kSend);
     }},
    {"read-ignored", "9.8", "A READ is acknowledged and never answered.", kSees,
     [](Told& told) {
       if (told.is(DataOp::kReadReq)) hollow(told);
     }},
};

}  // namespace

std::span<const Lie> lies() {
  return kLies;
}

}  // namespace mroce::comply
