-- tag: the prefix of each key in a cluster, where KEYS[1] is one of tallyd's own; bare(key): its name without the tag,
-- as members, fields and texts have it.
local tag = string.match(KEYS[1], '^{%w+}') or ''
local function bare(key) return string.sub(key, #tag + 1) end
