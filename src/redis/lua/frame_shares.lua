#!lua
-- KEYS: accepted. ARGV: counter, n of each. For sums that could overflow. Answers for each its sum, or an error.
--include parts/frame_head.lua
--include parts/book.lua
for i = 1, #ARGV, 2 do out[#out + 1] = book(KEYS[1], ARGV[i], ARGV[i + 1]) end
return out
