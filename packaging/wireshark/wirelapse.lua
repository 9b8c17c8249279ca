-- Fields of packets that `wirelapse trace --packets` wrote, for filters, columns and colour rules in
-- Wireshark and tshark: wirelapse.pid, wirelapse.send, wirelapse.tcp_wait_ms, …
--
-- Lua cannot read options of pcapng that Wireshark itself does not know. So the fields are read
-- from the comment of each packet, which says the same with three digits (docs/packets.md).

local wirelapse = Proto("wirelapse", "Wirelapse")
local comments = Field.new("frame.comment")

local f = wirelapse.fields
f.pid = ProtoField.uint32("wirelapse.pid", "Process")
f.comm = ProtoField.string("wirelapse.comm", "Program")
f.known_by = ProtoField.string("wirelapse.known_by", "Known by", base.ASCII, "how the process is known")
f.send = ProtoField.uint64("wirelapse.send", "Send", base.DEC, nil, nil, "number of the send on its connection")
f.sends = ProtoField.uint32("wirelapse.sends", "Sends", base.DEC, nil, nil, "how many sends have bytes in the packet")
f.send_bytes = ProtoField.uint32("wirelapse.send_bytes", "Bytes of the send")
f.tcp_wait_ms = ProtoField.double("wirelapse.tcp_wait_ms", "Waited in TCP (ms)")
f.reason = ProtoField.string("wirelapse.reason", "Waited for")
f.qdisc_us = ProtoField.double("wirelapse.qdisc_us", "Packet scheduler (µs)")
f.network_ms = ProtoField.double("wirelapse.network_ms", "Network (ms)", "from the driver to the ACK")
f.udp_us = ProtoField.double("wirelapse.udp_us", "In UDP (µs)", "from the call to the packet scheduler")
f.nic_rx_us = ProtoField.double("wirelapse.nic_rx_us", "NIC to driver (µs)", "from the NIC's own stamp to the driver")
f.softirq_us = ProtoField.double("wirelapse.softirq_us", "Softirq (µs)", "from the driver to the socket")
f.socket_us = ProtoField.double("wirelapse.socket_us", "Until readable (µs)", "from the socket to readable")
f.wakeup_us = ProtoField.double("wirelapse.wakeup_us", "Until read (µs)", "from readable until the program had read it")
f.retransmission = ProtoField.string("wirelapse.retransmission", "Retransmission")
f.segments = ProtoField.uint32("wirelapse.segments", "Segments")
f.segment_bytes = ProtoField.uint32("wirelapse.segment_bytes", "Bytes of each segment")
f.unit = ProtoField.string("wirelapse.unit", "Unit", base.ASCII, "the systemd unit of the socket")
f.container = ProtoField.string("wirelapse.container", "Container", base.ASCII, "the container of the socket")
f.drop_reason = ProtoField.string("wirelapse.drop_reason", "Dropped", base.ASCII, "why the kernel of this host dropped it")
f.receiver_pid = ProtoField.uint32("wirelapse.receiver.pid", "Receiving process")
f.receiver_comm = ProtoField.string("wirelapse.receiver.comm", "Receiving program")
f.receiver_known_by = ProtoField.string("wirelapse.receiver.known_by", "Receiver known by")

local nanoseconds = { ns = 1, ["µs"] = 1e3, ms = 1e6, s = 1e9 }

-- A number with commas between its thousands.
local function number(text)
    return tonumber((text:gsub(",", "")))
end

-- How long a leg took, in nanoseconds: `qdisc 3.10 µs`.
local function leg(legs, name)
    local value, unit = (" " .. legs):match(" " .. name .. " ([%d.,]+) (%S*s)")
    if value and nanoseconds[unit] then return number(value) * nanoseconds[unit] end
end

local known = { made = 1, connected = 1, listens = 1, held = 1, accepted = 1, used = 1, sent = 1 }

-- `curl[1234] (connected)`: name, process, and how it is known.
local function owner(part)
    local name, process, how = part:match("^(.*)%[(%d+)%] %((%a+)%)$")
    if known[how] then return name, tonumber(process), how end
end

-- `send 3 and 1 more, 512 bytes: tcp 40.1 ms (Nagle's algorithm), qdisc 3.10 µs, network 20.2 ms`
local function send(part, put)
    local first, legs = part:match("^(.-): (.*)$")
    first = first or part
    local send, more = first:match("^send (%d+)(.*)$")
    if not send then return end
    put(f.send, UInt64(send))
    put(f.sends, 1 + tonumber(more:match(" and (%d+) more") or 0))
    local bytes = more:match(", ([%d,]+) bytes?$")
    if bytes then put(f.send_bytes, number(bytes)) end
    if not legs then return end
    local tcp, udp, qdisc, network = leg(legs, "tcp"), leg(legs, "udp"), leg(legs, "qdisc"), leg(legs, "network")
    if udp then put(f.udp_us, udp / 1e3) end
    if tcp then put(f.tcp_wait_ms, tcp / 1e6) end
    local reason = legs:match("^tcp [%d.,]+ %S+ %((.-)%)")
    if reason then put(f.reason, reason) end
    if qdisc then put(f.qdisc_us, qdisc / 1e3) end
    if network then put(f.network_ms, network / 1e6) end
end

-- `arrival: nic 2.10 µs, softirq 3.10 µs, socket 800 ns, wakeup 20.1 µs`
local function arrival(legs, put)
    for name, field in pairs({ nic = f.nic_rx_us, softirq = f.softirq_us, socket = f.socket_us, wakeup = f.wakeup_us }) do
        local took = leg(legs, name)
        if took then put(field, took / 1e3) end
    end
end

-- Whether a part is one that can follow the owner.
local function follows(part)
    return not part or part:match("^retransmission %(") or part:match("^send %d") or part:match("^[%d,]+ segments ")
        or part:match("^to ") or part:match("^unit %S") or part:match("^container %S") or part:match("^dropped %(")
        or part:match("^arrival: ") or part:match("^ICMP error %(")
end

local function read(comment, put)
    local parts = {}
    for part in (comment .. " | "):gmatch("(.-) | ") do parts[#parts + 1] = part end
    -- A program may be called anything of 15 bytes, and so have what separates parts in its name.
    while #parts > 1 and not (owner(parts[1]) and follows(parts[2])) and parts[1] ~= "process unknown" do
        parts[1] = parts[1] .. " | " .. table.remove(parts, 2)
    end
    local name, process, how = owner(parts[1])
    if name then
        put(f.pid, process)
        put(f.comm, name)
    elseif parts[1] ~= "process unknown" then
        return false
    end
    put(f.known_by, how or "unknown")
    for at = 2, #parts do
        local part = parts[at]
        local again = part:match("^retransmission %((.*)%)$")
        local segments, each = part:match("^([%d,]+) segments of up to ([%d,]+) bytes$")
        local unit, container = part:match("^unit (.+)$"), part:match("^container (.+)$")
        local dropped = part:match("^dropped %((.*)%)$")
        if again then
            put(f.retransmission, again)
        elseif unit then
            put(f.unit, unit)
        elseif container then
            put(f.container, container)
        elseif dropped then
            put(f.drop_reason, dropped)
        elseif part:match("^arrival: ") then
            arrival(part:sub(10), put)
        elseif segments then
            put(f.segments, number(segments))
            put(f.segment_bytes, number(each))
        elseif part:match("^to ") then
            local name, process, how = owner(table.concat(parts, " | ", at):sub(4))
            if name then
                put(f.receiver_pid, process)
                put(f.receiver_comm, name)
                put(f.receiver_known_by, how)
            end
            break
        else
            send(part, put)
        end
    end
    return true
end

function wirelapse.dissector(buffer, _, tree)
    for _, comment in ipairs({ comments() }) do
        local text, found = tostring(comment.value), {}
        if read(text, function(field, value) found[#found + 1] = { field, value } end) then
            local branch = tree:add(wirelapse, buffer(0, 0))
            branch:append_text(": " .. text)
            for _, of in ipairs(found) do branch:add(of[1], of[2]):set_generated() end
            return
        end
    end
end

register_postdissector(wirelapse)
