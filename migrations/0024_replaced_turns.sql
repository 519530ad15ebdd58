-- The turn that stands in the place of this one, whose message was said again in other words, or to have another answer.
ALTER TABLE turns ADD COLUMN replaced_by INTEGER;
