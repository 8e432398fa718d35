-- ---- what is wrong with a datagram
--
-- docs/spec/03-packets.md says what is malformed. `now` is the datagram in hand:
--   tvb      its bytes, as many as the capture has
--   finish   where its trailer begins
--   limit    the same, or where the capture ends if it ends before; nothing is read behind it
--   cut      the capture ends before `finish`
--   mode     of its connection, if the handshake is in the capture
local now

local function malformed(tree, text) tree:add_proto_expert_info(experts.malformed, text) end

-- Not if it is the capture that ends here.
local function cut_off(tree, text)
  if not now.cut then malformed(tree, text) end
end

-- Without its handshake a connection is taken for one of mode 0. If that is wrong, then the last four bytes are no good
-- CRC, and 12 bytes of the tag seem to belong to the body: what is said about the bytes at its end would be wrong, too.
local function end_is_known()
  if now.sure == nil then
    local whole = now.tvb:len() == now.finish + 4
    now.sure = now.in_the_clear or now.mode ~= nil or (whole and crc32c(now.tvb, now.finish) == now.tvb(now.finish, 4):uint())
  end
  return now.sure
end

local function bad_end(tree, text)
  if end_is_known() then malformed(tree, text) end
end

-- ---- trees

-- Adds the fields of a table; `start` is where offset 0 of the table lies. Returns what follows, or nothing if cut off.
-- `items`, if given, gets the tree item of each field.
local function add_fields(tree, packet, tvb, start, limit, items)
  local finish = start
  for _, row in ipairs(packets[packet]) do
    local at, bytes = start + row.offset, math.max(1, row.bits / 8)
    if at + bytes > limit then
      cut_off(tree, "cut off in " .. row.field)
      return nil
    end
    if row.field ~= "zero" then
      local item = tree:add(fields[packet][row.field], tvb(at, bytes))
      if items ~= nil then items[row.field] = item end
    end
    finish = math.max(finish, at + bytes)
  end
  return finish
end

-- A branch over as much of `size` bytes from `at` as there is.
local function branch_at(tree, tvb, at, size, limit, text) return tree:add(tvb(at, math.max(0, math.min(size, limit - at))), text) end

local function add_rest(tree, field, tvb, at, limit)
  if limit > at then tree:add(field, tvb(at, limit - at)) end
end

local function add_flags(tree, tvb)
  local branch = tree:add(fields.common.flags, tvb(1, 1))
  for _, flag in ipairs(flags) do branch:add(flag_fields[flag.name], tvb(1, 1)) end
end

local function add_common(tree, header, tvb)
  local branch = branch_at(tree, tvb, 0, 16, tvb:len(), "common header")
  for _, row in ipairs(packets.common) do
    local bytes = math.max(1, row.bits / 8)
    if row.offset + bytes <= tvb:len() then
      if row.field == "flags" then
        add_flags(branch, tvb)
      else
        branch:add(fields.common[row.field], tvb(row.offset, bytes))
      end
    end
  end
  if header.path > 63 then malformed(branch, "path " .. header.path .. " is above 63") end
end

-- ---- small codings

local function backlog_packets(code)
  if code < 16 then return code end
  return (8 + code % 8) * 2 ^ (math.floor(code / 8) - 1)
end

local function add_backlog(tree, tvb, item)
  local packets_behind = backlog_packets(tvb(23, 1):uint())
  item:append_text(string.format(" (%.0f packets)", packets_behind))
  local low = packets_behind % 2 ^ 32
  tree:add(extra.backlog_packets, tvb(23, 1), UInt64.new(low, (packets_behind - low) / 2 ^ 32)):set_generated()
end

local function add_rate(tree, range, item)
  local code = range:uint()
  if code == 0 then
    item:append_text(" (none)")
  elseif code == 65535 then
    item:append_text(" (unlimited)")
  else
    local rate = code % 2048 * 2 ^ math.floor(code / 2048)
    item:append_text(string.format(" (%.0f bytes/s, %.6g Gbit/s)", rate, rate * 8 / 1e9))
    tree:add(extra.rate_bytes, range, rate):set_generated()
  end
end

local function add_delay(tree, range, item)
  local delay = range:uint() * 64
  item:append_text(string.format(" (%.3f us)", delay / 1000))
  tree:add(extra.delay_ns, range, delay):set_generated()
end

-- ---- TLVs

local value_tables = { NAK = "nak", RQ_CREDIT = "rq_credit", PORT_STATUS = "port_status", CREDIT_RECLAIM = "credit_reclaim", KEY_SHARE = "key_share" }
-- What has a meaning where, and how many there may be.
local most_in_ack = { NAK = 16, RQ_CREDIT = 64, PORT_STATUS = 1, CREDIT_RECLAIM = 16 }
local most_in_init = { KEY_SHARE = 1, COOKIE = 1 }

local function size_of(packet)
  local size = 0
  for _, row in ipairs(packets[packet]) do size = math.max(size, row.offset + math.max(1, row.bits / 8)) end
  return size
end

local function check_nak(branch, tvb, at, info)
  local code = tvb(at + 4, 1):uint()
  local why = values.NakCode[code] or "code " .. code
  if code == 0 or values.NakCode[code] == nil then malformed(branch, "a NAK of code " .. code) end
  branch:add_proto_expert_info(experts.nak, "NAK " .. why .. " of CPSN " .. tvb(at, 4):uint())
  info[#info + 1] = "NAK " .. why .. " cpsn " .. tvb(at, 4):uint()
end

local function check_length(branch, name, length, most)
  if most[name] == nil then
    if values.Tlv[0] ~= name and name ~= "unknown" then branch:append_text(" (no meaning here)") end
    return
  end
  if name == "COOKIE" then
    if length < 1 or length > 64 then malformed(branch, "a COOKIE of " .. length .. " bytes") end
  elseif length ~= size_of(value_tables[name]) then
    malformed(branch, name .. " with " .. length .. " bytes instead of " .. size_of(value_tables[name]))
  end
end

local function add_tlv(tree, tvb, at, length, most, info)
  local name = values.Tlv[tvb(at, 1):uint()] or "unknown"
  local branch = tree:add(tvb(at, 2 + length), "TLV " .. name)
  branch:add(fields.tlv.type, tvb(at, 1))
  branch:add(fields.tlv.length, tvb(at + 1, 1))
  local packet = value_tables[name]
  if packet ~= nil and length == size_of(packet) then
    add_fields(branch, packet, tvb, at + 2, at + 2 + length)
    if name == "NAK" and most.NAK ~= nil then check_nak(branch, tvb, at + 2, info) end
  elseif length > 0 then
    branch:add(extra.tlv_value, tvb(at + 2, length))
  end
  check_length(branch, name, length, most)
  return name, branch
end

-- A list of TLVs from `at` to `limit`, or with `to_end` to the TLV END. `most` are the names that have a meaning here.
-- Returns what follows.
local function add_tlvs(tree, tvb, at, limit, most, info, to_end)
  local counts = {}
  while at < limit do
    local length = at + 2 <= limit and tvb(at + 1, 1):uint() or 0
    if at + 2 + length > limit then
      if end_is_known() then cut_off(tree, "a TLV is cut off") end
      add_rest(tree, extra.rest, tvb, at, limit)
      return limit
    end
    local name, branch = add_tlv(tree, tvb, at, length, most, info)
    counts[name] = (counts[name] or 0) + 1
    if most[name] ~= nil and counts[name] == most[name] + 1 then malformed(branch, "more than " .. most[name] .. " of " .. name) end
    at = at + 2 + length
    if to_end and name == "END" then
      if length > 0 then malformed(branch, "END with a value") end
      return at
    end
  end
  if to_end then cut_off(tree, "the list of TLVs has no END") end
  return at
end

-- What stands behind a body that nothing should follow but TLVs, and those only with EXT.
local function add_behind(tree, header, tvb, at, limit, info)
  if limit <= at then return end
  if header.names.EXT then
    add_tlvs(tree, tvb, at, limit, {}, info)
    return
  end
  bad_end(tree, limit - at .. " bytes behind the body, and no flag EXT")
  add_rest(tree, extra.rest, tvb, at, limit)
end
