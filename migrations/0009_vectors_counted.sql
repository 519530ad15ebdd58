-- How many memories of a scope have a vector was counted too high where new words came with the same commit. Then some
-- others waited for theirs forever: nothing seemed to be missing. A key's high bits are the model's and the scope's number.

UPDATE memory_embedded SET vectors = 0;
UPDATE memory_embedded SET vectors = counted.vectors
    FROM (SELECT key >> 32 AS whose, count(*) AS vectors FROM memory_vectors GROUP BY key >> 32) AS counted
    WHERE counted.whose = model << 20 | scope;
