-- Shared by all scripts. Every algorithm is a local function
--   algorithm(key, now, mode, cost, jitter, a, i, commit)
-- that reads its own numbers from a[i], a[i+1], … and returns
--   code, taken, remaining, used, retry, reset
-- It writes only if commit is true. Times are integers in µs, exact in a double.

local SPEND, LOOK, CHARGE, UP_TO, REFUND = 0, 1, 2, 3, 4
local DENY, ALLOW, NEVER, MOVED = 0, 1, -1, -2

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

-- One reading of the clock for a whole script; a test gives its own.
local function clock(given)
  if given ~= '' then return tonumber(given) end
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- Numbers in commands: tostring would keep 14 digits only.
local function int(n) return string.format('%.0f', n) end

-- Life of a key that is as new after reset µs: garbage collection only.
local function life(reset, jitter) return int(max(1, ceil(reset / 1000)) + jitter) end

-- Hits that a look, spend or take-up-to takes where room more would fit.
local function taken(mode, allowed, cost, room)
  if mode == LOOK then return 0 end
  if allowed then return cost end
  if mode == UP_TO then return min(cost, max(room, 0)) end
  return 0
end
