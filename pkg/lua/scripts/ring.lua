-- Sliding window log in sub-windows. Numbers: limit, limit plus debt, slots,
-- slot µs, skew µs. State: a hash: the hits of sub-window n under n mod (slots+1),
-- and under "m" the newest sub-window that has hits and the hits in total, as two
-- little-endian doubles.
local function ring(key, now, mode, cost, jitter, a, i, commit)
  local limit, cap = a[i] + 0, a[i + 1] + 0
  local slots, slot = a[i + 2] + 0, a[i + 3] + 0
  local ring_size, span = slots + 1, (slots + 1) * slot
  local cur, total, stepped, late = floor(now / slot), 0, false, false
  local head = redis.call('HMGET', key, 'm', int(cur % ring_size))
  local newest
  if head[1] then newest, total = struct.unpack('<dd', head[1]) end
  local function read(from, to) -- hits of the sub-windows from … to
    local fields = {}
    for n = from, to do fields[#fields + 1] = int(n % ring_size) end
    return redis.call('HMGET', key, unpack(fields))
  end
  local first_dead, last_dead = 0, -1
  if newest then
    if newest > cur then
      if newest * slot - now <= tonumber(a[i + 4]) then
        cur, late = newest, true -- this clock is a little late
      else
        stepped = true
      end
    end
    if cur - newest >= ring_size then
      first_dead, last_dead, total = newest - slots, newest, 0
    elseif cur > newest then -- the sub-windows passed since have left
      first_dead, last_dead = newest + 1 - ring_size, cur - ring_size
      local gone = read(first_dead, last_dead)
      for n = 1, #gone do total = total - tonumber(gone[n] or 0) end
    end
  end
  local oldest = max(last_dead + 1, (newest or cur) - slots)
  local stamp = cur * slot

  local took, allowed, never = 0, true, false
  if mode == CHARGE then
    took = min(cost, max(0, cap - total))
  elseif mode == REFUND then
    took = min(cost, total)
  else
    allowed = total + cost <= limit
    never = not allowed and cost > limit
    took = taken(mode, allowed, cost, limit - total)
  end

  local used, retry, reset, back = total + took, 0, 0, nil
  if mode == REFUND then
    used = total - took
    if used > 0 then
      local hits, left = read(oldest, newest), took
      for n = #hits, 1, -1 do
        local h = tonumber(hits[n] or 0)
        if h > left then
          back = oldest + n - 1
          reset = min(back * slot, stamp) + span - now
          break
        end
        left = left - h
      end
    end
  elseif took > 0 then
    reset = stamp + span - now
  elseif total > 0 then
    reset = min(newest * slot, stamp) + span - now
  end
  if not allowed and not never then
    local need, leaves = used + cost - limit, stamp
    if newest and total > 0 then
      local hits = read(oldest, newest)
      for n = 1, #hits do
        local h = tonumber(hits[n] or 0)
        need = need - h
        if h > 0 and need <= 0 then
          leaves = min((oldest + n - 1) * slot, stamp)
          break
        end
      end
    end
    retry = leaves + span - now
  end

  local trims = newest and last_dead >= first_dead
  if commit and mode ~= LOOK and (took > 0 or stepped or trims) then
    if used == 0 then
      redis.call('DEL', key)
    else
      if total == 0 then
        redis.call('DEL', key) -- nothing of it counts any more
      elseif last_dead >= first_dead then
        local fields = {}
        for n = first_dead, last_dead do fields[#fields + 1] = int(n % ring_size) end
        redis.call('HDEL', key, unpack(fields))
      end
      local top = newest or cur
      if stepped then -- what is ahead of the present is brought back to it
        local from = max(cur, oldest)
        local hits, ahead, fields = read(from, newest), 0, {}
        for n = 1, #hits do
          ahead = ahead + tonumber(hits[n] or 0)
          fields[n] = int((from + n - 1) % ring_size)
        end
        redis.call('HDEL', key, unpack(fields))
        if ahead > 0 then redis.call('HSET', key, int(cur % ring_size), int(ahead)) end
        top = cur
      end
      if mode == REFUND then
        local left = took
        local last = stepped and cur or newest
        for n = last, min(oldest, last), -1 do
          local field = int(n % ring_size)
          local h = tonumber(redis.call('HGET', key, field) or 0)
          if h > left then
            redis.call('HSET', key, field, int(h - left))
            top = n
            break
          end
          if h > 0 then redis.call('HDEL', key, field) end
          left = left - h
        end
      elseif took > 0 then
        top = cur
      end
      local state = struct.pack('<dd', top, used)
      if mode ~= REFUND and took > 0 then
        local field, hits = int(cur % ring_size), took
        if newest == cur and not late then
          hits = hits + head[2] -- read together with the state
        elseif stepped or late then
          hits = hits + (redis.call('HGET', key, field) or 0)
        end
        redis.call('HSET', key, 'm', state, field, int(hits))
      else
        redis.call('HSET', key, 'm', state)
      end
      redis.call('PEXPIRE', key, life(reset, jitter))
    end
  end
  local remaining = max(0, limit - used)
  if allowed then return ALLOW, took, remaining, used, 0, reset end
  return never and NEVER or DENY, took, remaining, used, retry, reset
end
