-- Sliding window counter. Numbers: limit, limit plus debt, window µs, tick µs,
-- window in ticks, skew µs. State: "window number:hits before:hits".
local function counter(key, now, mode, cost, jitter, a, i, commit)
  local limit, cap = tonumber(a[i]), tonumber(a[i + 1])
  local window, tick, ticks = tonumber(a[i + 2]), tonumber(a[i + 3]), tonumber(a[i + 4])
  local number, stepped, prev, cur = floor(now / window), false, 0, 0
  local state = redis.call('GET', key)
  if state then
    local at, p, c = string.match(state, '^(%d+):(%d+):(%d+)$')
    at, p, c = tonumber(at), min(tonumber(p), cap), min(tonumber(c), cap)
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
  local function weigh() return prev * (ticks - elapsed) + cur * ticks end
  local function room() return floor(max(0, limit * ticks - weigh()) / ticks) end

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
      allowed = weigh() <= (limit - cost) * ticks
    end
    took = taken(mode, allowed, cost, mode == UP_TO and room() or 0)
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
      redis.call('SET', key, string.format('%.0f:%.0f:%.0f', number, prev, cur), 'PX', life(reset, jitter))
    end
  end
  local remaining, used = room(), ceil(weigh() / ticks)
  if allowed then return ALLOW, took, remaining, used, 0, reset end
  return never and NEVER or DENY, took, remaining, used, retry, reset
end
