-- The dissector. The tables `packets`, `values` and `flags` above it are printed from core/wire/fields.def.
-- tools/wireshark/mroce_fields.lua has what is shown, mroce_follow.lua what is remembered of a capture, mroce_parts.lua
-- what datagrams have in common, mroce_logic.lua how each type is taken apart.
--
-- A datagram is dissected by its tables: each field of the wire becomes mroce.PACKET.FIELD (mroce.FIELD for the common
-- header). On the first pass through a capture, connections are followed: handshakes name them, each path of each
-- direction remembers its highest PSEQ, epoch and reported CE count, so that expert information can say what is a gap,
-- what came late, what is a retransmission of which frame. What was found is kept by frame number, because Wireshark
-- dissects frames again in any order. No bit operations are used: the Lua versions of Wireshark 4.0 and newer
-- differ in them.

local mroce = Proto("mroce", "mroce transport")

-- ---- fields

local kinds = { [8] = ProtoField.uint8, [16] = ProtoField.uint16, [24] = ProtoField.uint24, [32] = ProtoField.uint32, [64] = ProtoField.uint64 }
local enumerations = {
  ["common.type"] = "Type", ["data.op"] = "DataOp", ["tlv.type"] = "Tlv", ["nak.code"] = "NakCode",
  ["stream_control.reason"] = "StopReason", ["stream_control.code"] = "NakCode",
  ["probe.kind"] = "ProbeKind", ["ext_read_resp.status"] = "NakCode", ["ext_atomic_resp.status"] = "NakCode",
}
local hexadecimal = { dcid = true, scid = true, known_cid = true, rkey = true, va = true, imm = true, magic = true, token = true, nonce = true, mask = true, flags = true }

local function short_name(packet, field)
  if packet == "common" then return "mroce." .. field end
  return "mroce." .. packet:gsub("^ext_", "") .. "." .. field
end

local function proto_field(packet, row)
  local name, title = short_name(packet, row.field), row.field .. ": " .. row.sentence
  if row.bits < 8 then
    local mask = row.low == 0 and 2 ^ row.bits - 1 or (2 ^ row.bits - 1) * 2 ^ row.low
    return ProtoField.uint8(name, row.field, base.DEC, values[enumerations[packet .. "." .. row.field]], mask, row.sentence)
  end
  local make = kinds[row.bits]
  if make == nil then return ProtoField.bytes(name, row.field, base.NONE, row.sentence) end
  local shape = hexadecimal[row.field] and base.HEX or base.DEC
  return make(name, row.field, shape, values[enumerations[packet .. "." .. row.field]], nil, title)
end

local fields, all = {}, {}
for packet, rows in pairs(packets) do
  fields[packet] = {}
  for _, row in ipairs(rows) do
    local made = proto_field(packet, row)
    fields[packet][row.field] = made
    all[#all + 1] = made
  end
end

local extra = {
  connection = ProtoField.uint32("mroce.connection", "connection", base.DEC, nil, nil, "counted in this capture, from 0"),
  to_acceptor = ProtoField.bool("mroce.to_acceptor", "to the acceptor", base.NONE, nil, nil, "from the initiator of the connection; known if its handshake is in the capture"),
  payload = ProtoField.bytes("mroce.payload", "payload", base.NONE, "of DATA"),
  sealed = ProtoField.bytes("mroce.sealed", "payload, encrypted", base.NONE, "of DATA in mode 2"),
  rest = ProtoField.bytes("mroce.rest", "not dissected", base.NONE, "bytes that have no meaning, or none that is known here"),
  padding = ProtoField.bytes("mroce.padding", "padding", base.NONE, "behind the body"),
  crc = ProtoField.uint32("mroce.crc", "CRC-32C", base.HEX, nil, nil, "trailer of mode 0"),
  tag = ProtoField.bytes("mroce.tag", "GCM tag", base.NONE, "trailer of mode 2"),
  status = ProtoField.string("mroce.crc.status", "CRC status", base.NONE, "good, bad or unverified"),
  missing = ProtoField.uint32("mroce.missing", "missing", base.DEC, nil, nil, "PSEQs skipped since the highest one of this path"),
  late = ProtoField.uint32("mroce.late", "late by", base.DEC, nil, nil, "PSEQs of this path that overtook this one"),
  first_frame = ProtoField.framenum("mroce.first_frame", "first sent in", base.NONE, frametype.RETRANS_PREV, nil, "the frame in which this CPSN was first seen"),
  received = ProtoField.uint32("mroce.path_block.received", "received of the last 256", base.DEC, nil, nil, "bits of the vector that are set"),
  newly_marked = ProtoField.uint32("mroce.path_block.newly_marked", "marked since the ACK before", base.DEC, nil, nil, "CE count minus that of the ACK before"),
  backlog_packets = ProtoField.uint64("mroce.data.backlog.packets", "backlog, decoded", base.DEC, nil, nil, "packets that wait behind this one, at least"),
  delay_ns = ProtoField.uint32("mroce.path_block.ack_delay.ns", "ACK delay in ns", base.DEC, nil, nil, "between the arrival of LARGEST and this ACK"),
  rate_bytes = ProtoField.double("mroce.path_block.rate.bytes_per_s", "rate in bytes/s", "rate hint, decoded"),
  cookie = ProtoField.bytes("mroce.retry.cookie", "cookie", base.NONE, "what the next INIT must carry"),
  stream = ProtoField.uint16("mroce.probe.stream", "stream", base.DEC, nil, nil, "whose credit is wanted"),
  version = ProtoField.uint8("mroce.version.version", "version", base.DEC, nil, nil, "that the sender understands"),
  tlv_value = ProtoField.bytes("mroce.tlv.value", "value", base.NONE, "of a TLV without a table"),
}
for _, made in pairs(extra) do all[#all + 1] = made end
local flag_fields = {}
for _, flag in ipairs(flags) do
  flag_fields[flag.name] = ProtoField.bool("mroce.flags." .. flag.name:lower(), flag.name, 8, nil, flag.mask, flag.sentence)
  all[#all + 1] = flag_fields[flag.name]
end
mroce.fields = all

local experts = {
  retransmission = ProtoExpert.new("mroce.expert.retransmission", "Retransmission", expert.group.SEQUENCE, expert.severity.NOTE),
  gap = ProtoExpert.new("mroce.expert.gap", "Gap in the path's sequence", expert.group.SEQUENCE, expert.severity.WARN),
  late = ProtoExpert.new("mroce.expert.late", "Overtaken on its path", expert.group.SEQUENCE, expert.severity.NOTE),
  repeated = ProtoExpert.new("mroce.expert.repeated", "PSEQ seen before", expert.group.SEQUENCE, expert.severity.NOTE),
  ce = ProtoExpert.new("mroce.expert.ce", "Congestion Experienced", expert.group.SEQUENCE, expert.severity.NOTE),
  marked = ProtoExpert.new("mroce.expert.marked", "The receiver counted CE marks", expert.group.SEQUENCE, expert.severity.NOTE),
  epoch = ProtoExpert.new("mroce.expert.epoch", "The path takes another way", expert.group.SEQUENCE, expert.severity.NOTE),
  nak = ProtoExpert.new("mroce.expert.nak", "NAK", expert.group.RESPONSE_CODE, expert.severity.WARN),
  failed = ProtoExpert.new("mroce.expert.failed", "The response says failure", expert.group.RESPONSE_CODE, expert.severity.WARN),
  refused = ProtoExpert.new("mroce.expert.refused", "A stream is refused or stopped", expert.group.RESPONSE_CODE, expert.severity.WARN),
  void = ProtoExpert.new("mroce.expert.void", "A packet that will not come", expert.group.RESPONSE_CODE, expert.severity.NOTE),
  penalty = ProtoExpert.new("mroce.expert.penalty", "The receiving host is too slow", expert.group.RESPONSE_CODE, expert.severity.WARN),
  reset = ProtoExpert.new("mroce.expert.reset", "The connection is unknown there", expert.group.RESPONSE_CODE, expert.severity.ERROR),
  version = ProtoExpert.new("mroce.expert.version", "A version of the protocol that is not known here", expert.group.UNDECODED, expert.severity.WARN),
  cut = ProtoExpert.new("mroce.expert.cut", "The capture holds only the beginning of this datagram", expert.group.UNDECODED, expert.severity.NOTE),
  malformed = ProtoExpert.new("mroce.expert.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR),
  crc = ProtoExpert.new("mroce.expert.crc", "Wrong CRC", expert.group.CHECKSUM, expert.severity.ERROR),
}
local list = {}
for _, made in pairs(experts) do list[#list + 1] = made end
mroce.experts = list

mroce.prefs.ports = Pref.range("UDP ports", "61440-61695", "base port and slots of the endpoints", 65535)
mroce.prefs.verify = Pref.bool("Verify the CRC", false, "slow for large captures")
