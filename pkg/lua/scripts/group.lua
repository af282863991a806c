-- Several keys decided together. ARGV: now µs or '', then for each key:
-- algorithm (0 fixed window … 6 concurrency), member, advisory, mode, cost,
-- jitter ms, how many numbers follow, and those numbers.
-- Reply: now µs, then six numbers for each key as those of a single script.
--
-- First every verdict, without writing; then the keys of those members that are
-- to be taken are written. An enforcing member is taken if no enforcing one
-- refuses, an advisory one by its own verdict, charges and refunds always; what
-- another one holds back answers as a look.
local algorithms = {
  [0] = fixed_window, [1] = log, [2] = ring, [3] = counter, [4] = bucket, [5] = bucket, [6] = concurrency,
}
local now = clock(ARGV[1])
local at, i, refused, held = {}, 2, {}, false
local reply = {now}
for k = 1, #KEYS do
  at[k] = i
  i = i + 7 + tonumber(ARGV[i + 6])
end

local function ask(k, mode, cost, commit)
  local p = at[k]
  return algorithms[tonumber(ARGV[p])](KEYS[k], now, mode, cost, tonumber(ARGV[p + 5]), ARGV, p + 7, commit)
end

local verdicts = {}
for k = 1, #KEYS do
  local p = at[k]
  verdicts[k] = {ask(k, tonumber(ARGV[p + 3]), tonumber(ARGV[p + 4]), false)}
  local code = verdicts[k][1]
  if code == MOVED then return {now, MOVED} end
  if code ~= ALLOW then
    refused[ARGV[p + 1]] = true
    if ARGV[p + 2] == '0' then held = true end
  end
end
for k = 1, #KEYS do
  local p = at[k]
  local mode = tonumber(ARGV[p + 3])
  local always = mode == CHARGE or mode == REFUND
  local answer = verdicts[k]
  if always or not refused[ARGV[p + 1]] and (ARGV[p + 2] == '1' or not held) then
    answer = {ask(k, mode, tonumber(ARGV[p + 4]), true)}
  elseif answer[1] == ALLOW then
    answer = {ask(k, LOOK, 0, false)}
  end
  for n = 1, 6 do reply[#reply + 1] = answer[n] end
end
return reply
