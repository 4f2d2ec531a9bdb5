CREATE TABLE ledger (version INTEGER PRIMARY KEY, identity TEXT COLLATE "C" NOT NULL);
CREATE TABLE entries (
        seq BIGINT PRIMARY KEY,
        kind TEXT COLLATE "C" NOT NULL,
        body TEXT COLLATE "C" NOT NULL,
        prev TEXT COLLATE "C" NOT NULL,
        hash TEXT COLLATE "C" NOT NULL
    );
CREATE TABLE accounts (
        account TEXT COLLATE "C" PRIMARY KEY,
        terms BIGINT NOT NULL REFERENCES entries,
        spent TEXT COLLATE "C" NOT NULL
    );
CREATE TABLE charges (
        seq BIGINT PRIMARY KEY REFERENCES entries,
        request TEXT COLLATE "C" NOT NULL,
        payers TEXT COLLATE "C" NOT NULL,
        key TEXT COLLATE "C"
    );
CREATE UNIQUE INDEX payers ON charges (md5(payers), key);
CREATE INDEX keys ON charges (key);
CREATE INDEX requests ON charges (request);
CREATE TABLE answers (
        charge BIGINT PRIMARY KEY REFERENCES charges,
        seq BIGINT NOT NULL UNIQUE REFERENCES entries,
        nonce TEXT COLLATE "C" NOT NULL,
        answer TEXT COLLATE "C" NOT NULL
    );
CREATE TABLE reservations (
    charge BIGINT PRIMARY KEY REFERENCES charges,
    steps BIGINT NOT NULL,
    drawn BIGINT NOT NULL,
    returned BIGINT NOT NULL
);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'entries are never changed or removed'; END $$;
CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON entries
        FOR EACH STATEMENT EXECUTE FUNCTION refuse();
INSERT INTO ledger VALUES (2, '8131fe5fefd516c1815a196d368e5841');
INSERT INTO entries VALUES (1, 'account', '{"account":"population:patient_id","at":"2026-11-16T06:28:13+00:00","budget":{"delta":"1/10000000","epsilon":"4"},"caps":{"pure":4000000000000,"renyi":[-1,-1,-1,-1,1013527556345,1846120052313,2613720322050,2973504238330,3485479186116,3731333865045,3854049795872,3951283281162],"side":57646075230}}', '0000000000000000000000000000000000000000000000000000000000000000', 'fed02bb0e60b6e4711dbdc627db8f8c248350e066f5265d822164319c2118ae7');
INSERT INTO entries VALUES (2, 'grant', '{"account":"quota:patient_id:ada","at":"2026-11-16T06:28:13+00:00","budget":{"delta":"0","epsilon":"1"},"caps":{"pure":1000000000000,"renyi":[-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1],"side":0}}', 'fed02bb0e60b6e4711dbdc627db8f8c248350e066f5265d822164319c2118ae7', 'a710bcbedd3ca60b966aeaf260696f421f48f6fc5f4be38ac7add609f00208b4');
INSERT INTO entries VALUES (3, 'charge', '{"about":{"table":"visits"},"accounts":["population:patient_id","quota:patient_id:ada"],"at":"2026-11-16T06:28:13+00:00","cost":{"pure":100000000000,"renyi":[7484418618,9958584396,14840162055,19596462939,28587733010,36716659703,50104436776,59977820526,79272192284,89771530018,94926010552,98738949786],"side":0},"key":"key of first","request":"a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e"}', 'a710bcbedd3ca60b966aeaf260696f421f48f6fc5f4be38ac7add609f00208b4', '114d18746eb1b30d9ca74327464b8da3b170b792b25eba4fa4b777ae16a89572');
INSERT INTO entries VALUES (4, 'release', '{"at":"2026-11-16T06:28:13+00:00","charge":3,"commitment":"1eed62999d517b6d9eae7fac2204b3571d753c38c95e48bc88acfca0c0ddddbe"}', '114d18746eb1b30d9ca74327464b8da3b170b792b25eba4fa4b777ae16a89572', '23c420a0015eb3c689fd0d4647b5ff015132676159452ca001f16d53c928c4f7');
INSERT INTO entries VALUES (5, 'charge', '{"about":{"table":"visits"},"accounts":["population:patient_id","quota:patient_id:ada"],"at":"2026-11-16T06:28:13+00:00","cost":{"pure":100000000000,"renyi":[7484418618,9958584396,14840162055,19596462939,28587733010,36716659703,50104436776,59977820526,79272192284,89771530018,94926010552,98738949786],"side":0},"key":"key of second","request":"16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4"}', '23c420a0015eb3c689fd0d4647b5ff015132676159452ca001f16d53c928c4f7', '3039a5e50e930d42a06c52c6a4a7f6824429f5881ff4f8bcc89cb47991e7b23f');
INSERT INTO entries VALUES (6, 'release', '{"at":"2026-11-16T06:28:13+00:00","charge":5,"commitment":"70c65d1f8cbace573b3b3a1474a30661c63c73f2cb19825e0eaf42d7dbd44f69"}', '3039a5e50e930d42a06c52c6a4a7f6824429f5881ff4f8bcc89cb47991e7b23f', 'c80c46363f4aab97181ce44079f84dc4098fc5cd1dde4d0d198c7cb35f3c5206');
INSERT INTO entries VALUES (7, 'reserve', '{"about":{"table":"visits"},"accounts":["population:patient_id","quota:patient_id:ada"],"at":"2026-11-16T06:28:13+00:00","cost":{"pure":10000000000,"renyi":[74998439,99995835,149983754,199958348,299847624,399623899,598679656,796813730,1574213205,3005553826,5173413750,8653378457],"side":0},"key":"key of third","request":"b1e99324505bd32da0e1f85dcf5e19a09db0481e8a15f62c41eb320304a8e927","steps":9}', 'c80c46363f4aab97181ce44079f84dc4098fc5cd1dde4d0d198c7cb35f3c5206', 'b76dba323a21988cc9c445bf8afdaef76d1a2e005a75d6a4ce55fff688629d86');
INSERT INTO entries VALUES (8, 'draw', '{"at":"2026-11-16T06:28:13+00:00","charge":7,"steps":4}', 'b76dba323a21988cc9c445bf8afdaef76d1a2e005a75d6a4ce55fff688629d86', '760b8a8153da416cce889fc128a3f70cc34420750ad94784fb77673a3b940990');
INSERT INTO entries VALUES (9, 'return', '{"at":"2026-11-16T06:28:13+00:00","charge":7,"steps":5}', '760b8a8153da416cce889fc128a3f70cc34420750ad94784fb77673a3b940990', '2c11b5699bafbb47ad0f53623ef580d8ff1937bdd8d199ce7cbee4ac15010352');
INSERT INTO entries VALUES (10, 'charge', '{"about":{"table":"visits"},"accounts":["population:patient_id"],"at":"2026-11-16T06:28:13+00:00","cost":{"pure":100000000000,"renyi":[7484418618,9958584396,14840162055,19596462939,28587733010,36716659703,50104436776,59977820526,79272192284,89771530018,94926010552,98738949786],"side":0},"key":null,"request":"76f75e6129fe30135bd44d80ab7cc46fdba81907758dc808f3e2517beef2b1e9"}', '2c11b5699bafbb47ad0f53623ef580d8ff1937bdd8d199ce7cbee4ac15010352', '1d67c6247b5cbde9227fff9840f4c9bfe8d14b05269f8b3ed612824f26a204e0');
INSERT INTO accounts VALUES ('population:patient_id', 1, '{"pure":340000000000,"renyi":[22753249610,30275736528,45120421181,59589222209,86962589526,111748474705,152708028952,183120716498,244113429672,281336805358,305471686656,330830363186],"side":0}');
INSERT INTO accounts VALUES ('quota:patient_id:ada', 2, '{"pure":240000000000,"renyi":[15268830992,20317152132,30280259126,39992759270,58374856516,75031815002,102603592176,123142895972,164841237388,191565275340,210545676104,232091413400],"side":0}');
INSERT INTO charges VALUES (3, 'a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e', '["population:patient_id","quota:patient_id:ada"]', 'key of first');
INSERT INTO charges VALUES (5, '16367aacb67a4a017c8da8ab95682ccb390863780f7114dda0a0e0c55644c7c4', '["population:patient_id","quota:patient_id:ada"]', 'key of second');
INSERT INTO charges VALUES (7, 'b1e99324505bd32da0e1f85dcf5e19a09db0481e8a15f62c41eb320304a8e927', '["population:patient_id","quota:patient_id:ada"]', 'key of third');
INSERT INTO charges VALUES (10, '76f75e6129fe30135bd44d80ab7cc46fdba81907758dc808f3e2517beef2b1e9', '["population:patient_id"]', NULL);
INSERT INTO answers VALUES (3, 4, 'f69c45944aab81060e106d5245a4037629d51b8ac7f09836a2e68347021e2623', 'answer to first
in two lines');
INSERT INTO answers VALUES (5, 6, '6dbf037790729b679018c0f331de6fac063f919c67c84491db7c574ce99f1528', 'answer to second
in two lines');
INSERT INTO reservations VALUES (7, 9, 4, 5);
