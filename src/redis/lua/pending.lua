#!lua flags=no-writes
-- KEYS: dirty, pending hash. ARGV: cursor, fields. Answers since when the hash has counts (nil: it is not in the index),
-- then the next cursor and {field, value, ...}, or an error.
--include parts/tag.lua
local since, r = redis.call('ZSCORE', KEYS[1], bare(KEYS[2])), redis.pcall('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
if r.err then return r end
return {since, r[1], r[2]}
