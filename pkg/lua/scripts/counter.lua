-- Sliding window counter. Numbers: limit, limit plus debt, window µs, tick µs,
-- window in ticks, skew µs. State: window number, hits before and hits, as three
-- little-endian doubles.
local function counter(key, now, mode, cost, jitter, a, i, commit)
  local limit, cap = a[i] + 0, a[i + 1] + 0
  local window, tick, ticks = a[i + 2] + 0, a[i + 3] + 0, a[i + 4] + 0
  local number, stepped, prev, cur = floor(now / window), false, 0, 0
  local state = redis.call('GET', key)
  if state then
    local at, p, c = struct.unpack('<ddd', state)
    p, c = min(p, cap), min(c, cap)
    if p == 0 and c == 0 then at = 0 end -- as new, whenever that was
    if at > number then
      if at == number + 1 and at * window - now <= tonumber(a[i + 5]) then
        number = at
      else
        stepped = true
      end
    end
    if at >= number then
      prev, cur = p, c
    elseif at == number - 1 then
      prev = c
    end
  end
  local begin = number * window
  local elapsed = floor(max(0, now - begin) / tick)
  local before, took, allowed, never = cur, 0, true, false
  local past = prev * (ticks - elapsed) -- what the previous window weighs

  if mode == CHARGE then
    took = min(cost, cap - cur)
    cur = cur + took
  elseif mode == REFUND then
    took = min(cost, cur)
    cur = cur - took
  else
    if cost > limit then
      allowed, never = false, true
    else
      allowed = past + cur * ticks <= (limit - cost) * ticks
    end
    took = taken(mode, allowed, cost, floor(max(0, (limit - cur) * ticks - past) / ticks))
    cur = cur + took
  end

  local retry, reset = 0, 0
  if not allowed and not never then
    local left = limit - cost
    local function fade(hits, free) -- µs until hits weigh at most free
      if free >= hits then return 0 end
      return min((ticks - floor(free * ticks / hits)) * tick, window)
    end
    if cur <= left then
      retry = begin + fade(prev, left - cur) - now
    else
      retry = begin + window + fade(cur, left) - now
    end
  end
  if cur > 0 then
    reset = (number + 2) * window - now
  elseif prev > 0 then
    reset = (number + 1) * window - now
  end
  if commit and (cur ~= before or stepped and mode ~= LOOK) then
    if reset == 0 then
      redis.call('DEL', key)
    else
      redis.call('SET', key, struct.pack('<ddd', number, prev, cur), 'PX', life(reset, jitter))
    end
  end
  local remaining, used = floor(max(0, (limit - cur) * ticks - past) / ticks), ceil((past + cur * ticks) / ticks)
  if allowed then return ALLOW, took, remaining, used, 0, reset end
  return never and NEVER or DENY, took, remaining, used, retry, reset
end
