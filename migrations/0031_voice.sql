-- Messages whose words are yet to be heard: few, and looked for after each that comes.
CREATE INDEX inbox_voice ON inbox (agent_id) WHERE state = 0 AND kind = 'voice';
