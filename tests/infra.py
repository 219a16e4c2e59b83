"""What tests/infra.sh looks at beyond what the tools say by themselves: the templates deployed to moto and read as data.

moto makes tables, functions, mappings, roles, keys, topics, queues, buckets, rules, logs and services of ECS; alarms, metric filters,
schedules, policies of buckets, topics and queues, and some properties of tables it passes over. Those are read in the template.

Argument: a folder with a rendered stack (`<model>.yaml`) and rendered tables (`<model>.json`) for each model, and checkov's results.
"""

import http.server
import io
import json
import logging
import os
import pathlib
import re
import subprocess
import sys
import threading
import warnings
import zipfile

REGION = "eu-central-1"
# moto answers all of them; nothing may ever go out to a real account.
os.environ.update(AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none", AWS_DEFAULT_REGION=REGION, AWS_EC2_METADATA_DISABLED="true")

import boto3
import yaml
from moto import mock_aws
from moto.events.models import EventPattern

ROOT = pathlib.Path(__file__).parent.parent
RENDERED = pathlib.Path(sys.argv[1])
MODELS = ["quality", "inspection", "skills"]
passed = 0


def check(holds, what):
    global passed
    if not holds:
        sys.exit(f"infra.py: failed: {what}")
    passed += 1


def equal(found, expected, what):
    check(found == expected, f"{what}: found {found}, expected {expected}")


# ---- templates as data --------------------------------------------------------------------------------------------------


class Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms: `!Ref x` is {"Ref": "x"}."""


def short(loader, name, node):
    name = name if name in ("Ref", "Condition") else f"Fn::{name}"
    kinds = {yaml.ScalarNode: loader.construct_scalar, yaml.SequenceNode: lambda n: loader.construct_sequence(n, deep=True)}
    kinds[yaml.MappingNode] = lambda n: loader.construct_mapping(n, deep=True)
    value = kinds[type(node)](node)
    return {name: value.split(".", 1) if name == "Fn::GetAtt" and isinstance(value, str) else value}


Loader.add_multi_constructor("!", short)


def read(path):
    return yaml.load(path.read_text(), Loader)


def nodes(value, path=()):
    """Every value inside, with the way to it."""
    yield path, value
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from nodes(inner, path + (key,))


def listed(value):
    return value if isinstance(value, list) else [value]


def of_type(template, kind):
    return {name: resource for name, resource in template["Resources"].items() if resource["Type"] == kind}


def statements(template):
    for path, value in nodes(template["Resources"]):
        if isinstance(value, dict) and "Effect" in value:
            yield path, value


def least_privilege(name, template):
    """No action for everything; no resource for everything but where there is no other name."""
    count = 0
    for path, statement in statements(template):
        where = f"{name}: {'/'.join(map(str, path))}"
        count += 1
        for action in listed(statement["Action"]):
            check("*" not in action, f"{where}: action {action}")
        if statement["Effect"] == "Deny":
            continue
        check(statement.get("Principal") != "*", f"{where}: anybody")
        resources = listed(statement.get("Resource", []))
        if "*" in resources:
            in_key = template["Resources"][path[0]]["Type"] == "AWS::KMS::Key"
            check(in_key or listed(statement["Action"]) == ["ecr:GetAuthorizationToken"], f"{where}: every resource")
    check(count > 3, f"{name}: only {count} statements were found")


def encrypted(template):
    """Everything that holds data is encrypted with the stack's key."""
    key, expected = {"Fn::GetAtt": ["Key", "Arn"]}, 0
    for name, resource in template["Resources"].items():
        has = resource.get("Properties", {})
        where = {
            "AWS::DynamoDB::Table": lambda: has["SSESpecification"]["KMSMasterKeyId"],
            "AWS::SNS::Topic": lambda: has["KmsMasterKeyId"],
            "AWS::SQS::Queue": lambda: has["KmsMasterKeyId"],
            "AWS::Logs::LogGroup": lambda: has["KmsKeyId"],
            "AWS::Lambda::Function": lambda: has["KmsKeyArn"],
            "AWS::Scheduler::Schedule": lambda: has["KmsKeyArn"],
            "AWS::S3::Bucket": lambda: has["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]["ServerSideEncryptionByDefault"]["KMSMasterKeyID"],
        }.get(resource["Type"])
        if where:
            expected += 1
            equal(where(), key, f"{name} is encrypted with")
    check(expected >= 14, f"only {expected} resources hold data")


def tables_are_safe(template):
    for name, resource in of_type(template, "AWS::DynamoDB::Table").items():
        has = resource["Properties"]
        check(has["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], f"{name}: recovery")
        check(has["DeletionProtectionEnabled"], f"{name}: protection")
        equal(resource["DeletionPolicy"], "Retain", f"{name}: when the stack goes")
    state = template["Resources"]["StateTable"]["Properties"]
    equal(state["TimeToLiveSpecification"], {"AttributeName": "ExpiresAt", "Enabled": True}, "time to live of the state table")


def buckets_are_private(template):
    for name, resource in of_type(template, "AWS::S3::Bucket").items():
        has = resource["Properties"]
        block = has["PublicAccessBlockConfiguration"]
        check(len(block) == 4 and all(block.values()), f"{name} is private: {block}")
        rule = has["LifecycleConfiguration"]["Rules"][0]
        check(rule["Status"] == "Enabled" and rule["ExpirationInDays"], f"{name} is kept for ever")
        policies = of_type(template, "AWS::S3::BucketPolicy").values()
        check(any(policy["Properties"]["Bucket"] == {"Ref": name} for policy in policies), f"{name} is reached without TLS")


def written_metrics():
    """What the functions write as metrics: of names without a label those alone, else with each label's value that the code counts."""
    telemetry = (ROOT / "src/engine/telemetry.rs").read_text()
    names = set(re.findall(r'"(tablekeeper_\w+)"', telemetry))
    counted = "".join((ROOT / path).read_text() for path in ("src/engine/telemetry/readings.rs", "src/adapters/lambda/metrics.rs"))
    labels = set(re.findall(r'"([a-z_]+)"', counted))
    check({"quarantined", "failed"} <= labels and "tablekeeper_records_total" in names, "names of metrics are not where they were")
    return names, labels


def alarms_have_metrics(name, template):
    """Each metric of ours that an alarm looks at is made: by a metric filter or by the function itself, and all alarms tell someone."""
    made, used = set(), set()
    names, labels = written_metrics()
    readme = (ROOT / "infra/README.md").read_text()
    for of in of_type(template, "AWS::Logs::MetricFilter").values():
        made |= {metric["MetricName"] for metric in of["Properties"]["MetricTransformations"]}
    for alarm, of in of_type(template, "AWS::CloudWatch::Alarm").items():
        check(of["Properties"]["AlarmActions"], f"{alarm} tells nobody")
        check(f"`{alarm}`" in readme, f"{name}: infra/README.md does not say what {alarm} means")
        for _, value in nodes(of):
            if not isinstance(value, dict) or not isinstance(value.get("MetricName"), str) or "Tablekeeper" not in str(value["Namespace"]):
                continue
            if value["Namespace"] != "Tablekeeper":
                used.add(value["MetricName"])
                continue
            metric, _, label = value["MetricName"].partition(".")
            check(metric in names and (not label or label in labels), f"{name}: {alarm}: no function writes {value['MetricName']}")
            table = template["Resources"]["StreamFunction"]["Properties"]["Environment"]["Variables"]["TABLEKEEPER_TABLE"]
            equal(value["Dimensions"], [{"Name": "table", "Value": table}], f"{name}: {alarm}: what the metric is told apart by")
    equal(used, made, f"{name}: metrics of alarms that are counted from logs")


def log_says(name, template):
    """What metric filters look for in the log is what the programs write."""
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.rs"))
    fields = re.findall(r'^    \("(\w+)", "', (ROOT / "src/engine/telemetry.rs").read_text(), re.M)
    for filter_name, of in of_type(template, "AWS::Logs::MetricFilter").items():
        pattern = of["Properties"]["FilterPattern"]
        for field in re.findall(r"\$\.fields\.(\w+)", pattern):
            check(field == "message" or field in fields, f"{name}: {filter_name}: no log line has a field `{field}`")
        for message in re.findall(r'\$\.fields\.message = "([^"]*)"', pattern):
            check(message == "*" or f'"{message}"' in sources, f"{name}: {filter_name}: nothing logs `{message}`")


def settings_are_known(template):
    """The functions' variables are those that they read, and the schedule function may do what it is told to."""
    read_by = lambda file: set(re.findall(r'"(TABLEKEEPER_\w+)"', (ROOT / "src/adapters/lambda" / file).read_text()))
    variables = lambda name: template["Resources"][name]["Properties"]["Environment"]["Variables"]
    given, known = variables("ScheduleFunction"), read_by("settings.rs") | read_by("call.rs")
    check(read_by("call.rs") and set(given) <= known, f"unknown variables: {set(given) - known}")
    equal(given["TABLEKEEPER_MAX_READ_UNITS"], {"Ref": "ReconcileReadUnits"}, "what a reconcile may read")
    needed = {"TABLEKEEPER_MODEL", "TABLEKEEPER_TOPIC_ARN", "TABLEKEEPER_REPORT_BUCKET"}
    check(needed <= set(given), f"the schedule function does not start without {needed - set(given)}")
    tasks = [json.loads(one["Properties"]["Target"]["Input"])["task"] for one in of_type(template, "AWS::Scheduler::Schedule").values()]
    enum = re.search(r"enum Task \{([^}]*)\}", (ROOT / "src/adapters/lambda/call.rs").read_text()).group(1)
    equal(sorted(tasks), sorted(re.findall(r"\w+", enum.lower())), "what the schedules call for")
    policy = template["Resources"]["ScheduleRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    may = {action: statement["Resource"] for statement in policy for action in listed(statement["Action"])}
    equal(may["sns:Publish"], given["TABLEKEEPER_TOPIC_ARN"], "where the schedule function may publish")
    prefix = given["TABLEKEEPER_REPORT_PREFIX"]
    equal(may["s3:PutObject"], {"Fn::Sub": "${ReportBucket.Arn}/" + prefix + "*"}, "where the schedule function may write")

    given, known = variables("StreamFunction"), read_by("settings.rs")
    check(known and set(given) <= known, f"unknown variables: {set(given) - known}")
    equal(given["TABLEKEEPER_REPORTING"], "item-failures", "what the function is told of the mapping")
    mapping = template["Resources"]["StreamMapping"]["Properties"]
    equal(mapping["FunctionResponseTypes"], ["ReportBatchItemFailures"], "what the mapping reads")
    equal(given["TABLEKEEPER_OLD_IMAGES"], "not-trusted", "with a mapping that may drop records, old images")
    rule = template["Resources"]["DeadLetterRule"]["Properties"]["Targets"][0]
    said, values = rule["InputTransformer"]["InputTemplate"]["Fn::Sub"]
    for part in ("redrive --model ${Model} --table ${Kept} --state-table ${StateTable} --from s3://<bucket>/<key>", '"A batch'):
        check(part in said, f"the mail of what was given up does not say {part}: {said}")
    equal(values, {"Kept": given["TABLEKEEPER_TABLE"]}, "the table in the mail of what was given up")


# ---- the event filter ---------------------------------------------------------------------------------------------------


def matches(pattern, event):
    """The rules of event patterns as far as ours go: paths to texts, and whether they exist. A second reading beside moto's."""
    for key, rule in pattern.items():
        value = event.get(key) if isinstance(event, dict) else None
        if isinstance(rule, dict):
            if not matches(rule, value if isinstance(value, dict) else {}):
                return False
        else:
            is_text = value is not None and not isinstance(value, (dict, list))
            if not any(choice["exists"] == is_text for choice in rule):
                return False
    return True


def filters(model, template):
    written = [one["Pattern"] for one in template["Resources"]["StreamMapping"]["Properties"]["FilterCriteria"]["Filters"]]
    check(0 < len(written) <= 5, f"{model}: {len(written)} patterns; a mapping takes five")
    patterns = [json.loads(pattern) for pattern in written]
    for pattern in patterns:
        equal(list(pattern), ["dynamodb"], f"{model}: what the pattern is about")
        ends = [path for path, value in nodes(pattern) if isinstance(value, list)]
        check(all(path[-1] in ("S", "N", "B") for path in ends), f"{model}: `exists` sees only what has no parts: {ends}")

    keys = {
        element["AttributeName"]: {"S": "x"} for element in template["Resources"]["Table"]["Properties"]["KeySchema"]
    }
    source, ours = {**keys, "Status": {"S": "Pending"}}, {**keys, "_keeper": {"S": "aggregate/x"}}
    cases = [
        ("a source item comes", True, {"NewImage": source}),
        ("a source item changes", True, {"NewImage": source, "OldImage": source}),
        ("a source item goes", True, {"OldImage": source}),
        ("something goes, and only its keys are told", True, {}),
        ("a source item comes over a derived one", True, {"NewImage": source, "OldImage": ours}),
        ("a derived item comes over a source item", True, {"NewImage": ours, "OldImage": source}),
        ("only the new image of a source item is told", True, {"NewImage": source}),
        ("a source item of the bare keys", True, {"NewImage": keys}),
        ("the marker is no text, so the function is asked", True, {"NewImage": {**keys, "_keeper": {"N": "1"}}}),
        ("a derived item comes", False, {"NewImage": ours}),
        ("a derived item changes", False, {"NewImage": ours, "OldImage": ours}),
        ("a derived item goes", False, {"OldImage": ours}),
    ]
    for what, passes, images in cases:
        record = {"eventName": "MODIFY", "dynamodb": {"Keys": keys, "SequenceNumber": "111", **images}}
        equal(any(matches(pattern, record) for pattern in patterns), passes, f"{model}: {what}: passes")
        moto = any(EventPattern.load(pattern).matches_event(record) for pattern in written)
        equal(moto, passes, f"{model}: {what}: passes in moto")
    check(not matches({"a": {"b": [{"exists": True}]}}, {"a": {"b": {"S": "x"}}}), "`exists` took something with parts for a text")


# ---- deployed -----------------------------------------------------------------------------------------------------------


def deploy(name, body, **parameters):
    client = boto3.client("cloudformation")
    given = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
    client.create_stack(StackName=name, TemplateBody=body, Capabilities=["CAPABILITY_IAM"], Parameters=given)
    stack = client.describe_stacks(StackName=name)["Stacks"][0]
    equal(stack["StackStatus"], "CREATE_COMPLETE", f"stack {name}")
    resources = client.list_stack_resources(StackName=name)["StackResourceSummaries"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    return {r["LogicalResourceId"]: r["PhysicalResourceId"] for r in resources if r.get("PhysicalResourceId")}, outputs


def shape(properties):
    """What makes a table the one that a model means, the same of a description and of a template."""
    schema = lambda elements: [(element["AttributeName"], element["KeyType"]) for element in elements]
    return {
        "definitions": sorted((one["AttributeName"], one["AttributeType"]) for one in properties["AttributeDefinitions"]),
        "keys": schema(properties["KeySchema"]),
        "indexes": {
            index["IndexName"]: (schema(index["KeySchema"]), index["Projection"]["ProjectionType"])
            for index in properties.get("GlobalSecondaryIndexes") or []
        },
        "stream": (properties.get("StreamSpecification") or {}).get("StreamViewType"),
    }


def packages():
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="packages", CreateBucketConfiguration={"LocationConstraint": REGION})
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("bootstrap", "")
    for key in ("stream.zip", "schedule.zip"):
        s3.put_object(Bucket="packages", Key=key, Body=package.getvalue())


def tables_match(model, names, rendered):
    """The tables that were made are those of `tablekeeper infra --format json`."""
    for resource, name in names.items():
        made = boto3.client("dynamodb").describe_table(TableName=name)["Table"]
        wanted = rendered["Resources"][resource]["Properties"]
        equal(shape(made), shape(wanted), f"{model}: {resource}")
        equal(made["BillingModeSummary"]["BillingMode"], wanted["BillingMode"], f"{model}: {resource}: billing")
        equal(made["DeletionProtectionEnabled"], True, f"{model}: {resource}: protection")


def whole_stack(model):
    template, text = read(RENDERED / f"{model}.yaml"), (RENDERED / f"{model}.yaml").read_text()
    rendered = json.loads((RENDERED / f"{model}.json").read_text())
    with mock_aws(config={"lambda": {"use_docker": False}}):
        packages()
        made, outputs = deploy("keeper", text, CodeBucket="packages", CodeKey="stream.zip", ScheduleCodeKey="schedule.zip")
        names = {name: of["Properties"]["TableName"] for name, of in rendered["Resources"].items()}
        tables_match(model, names, rendered)
        equal((outputs["TableName"], outputs["StateTableName"]), (names["Table"], names["StateTable"]), f"{model}: outputs")

        topics = {topic["TopicArn"] for topic in boto3.client("sns").list_topics()["Topics"]}
        check({outputs["NotificationTopicArn"], outputs["AlarmTopicArn"]} <= topics, f"{model}: topics")
        for topic in topics:
            attributes = boto3.client("sns").get_topic_attributes(TopicArn=topic)["Attributes"]
            equal(attributes["KmsMasterKeyId"], outputs["KeyArn"], f"{model}: key of {topic}")
        s3 = boto3.client("s3")
        for bucket in (made["ReportBucket"], made["DeadLetterBucket"]):
            by = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"][0]
            equal(by["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"], outputs["KeyArn"], f"{model}: key of {bucket}")

        functions = {one["FunctionName"]: one for one in boto3.client("lambda").list_functions()["Functions"]}
        for resource in ("StreamFunction", "ScheduleFunction"):
            function = functions[made[resource]]
            equal(function["Runtime"], "provided.al2023", f"{model}: {resource}")
            # moto takes every function for one of x86.
            equal(template["Resources"][resource]["Properties"]["Architectures"], ["arm64"], f"{model}: {resource}")
            variables = function["Environment"]["Variables"]
            equal(variables["TABLEKEEPER_TABLE"], names["Table"], f"{model}: {resource}: table")
            equal(variables["TABLEKEEPER_STATE_TABLE"], names["StateTable"], f"{model}: {resource}: state table")
            equal(variables["TABLEKEEPER_MODEL"], model, f"{model}: {resource}: model")
        mapping = boto3.client("lambda").list_event_source_mappings()["EventSourceMappings"]
        equal(len(mapping), 1, f"{model}: mappings")
        stream = boto3.client("dynamodb").describe_table(TableName=names["Table"])["Table"]["LatestStreamArn"]
        equal(mapping[0]["EventSourceArn"], stream, f"{model}: stream of the mapping")
        equal(mapping[0]["DestinationConfig"]["OnFailure"]["Destination"], f"arn:aws:s3:::{made['DeadLetterBucket']}", f"{model}: destination")
        roles = {role["RoleName"] for role in boto3.client("iam").list_roles()["Roles"]}
        check({made["StreamRole"], made["ScheduleRole"], made["SchedulerRole"]} <= roles, f"{model}: roles")
        # As a text: moto does not keep it as JSON.
        rights = str(boto3.client("iam").get_role_policy(RoleName=made["StreamRole"], PolicyName="stream")["PolicyDocument"])
        for named in (outputs["TableArn"], outputs["StateTableArn"], stream, f"{made['DeadLetterBucket']}/aws/lambda/*"):
            check(f"'{named}'" in rights or f":{named}'" in rights, f"{model}: the function has no right on {named}: {rights}")
        check(boto3.client("kms").get_key_rotation_status(KeyId=outputs["KeyArn"])["KeyRotationEnabled"], f"{model}: the key rotates")

        if model == "quality":
            beside(template, text, stream, names["Table"], outputs)


def beside(template, text, stream, table, outputs):
    """A second stack that keeps the first one's table as one that is there already, a third without functions, and a worker."""
    second = dict(ExistingStreamArn=stream, StateTableName="second-keeper", CodeBucket="packages", CodeKey="stream.zip", FailureDestination="sqs")
    made, second = deploy("second", text, **second)
    check("Table" not in made and "DeadLetterBucket" not in made and "ScheduleFunction" not in made, f"second stack: {sorted(made)}")
    equal((second["TableArn"], second["TableName"]), (outputs["TableArn"], table), "the second stack's table")
    policy = boto3.client("iam").get_role_policy(RoleName=made["StreamRole"], PolicyName="stream")["PolicyDocument"]
    check(f"{outputs['TableArn']}/stream/*" in str(policy) and made["DeadLetterQueue"].split("/")[-1] in str(policy), f"its rights: {policy}")

    made, _ = deploy("third", text, TableName="third", StateTableName="third-keeper")
    check(not {"StreamFunction", "StreamMapping", "StreamRole", "ScheduleFunction", "DeadLetterBucket", "DeadLetterQueue"} & set(made), f"third stack: {sorted(made)}")

    ec2 = boto3.client("ec2")
    network = dict(Vpc=ec2.describe_vpcs()["Vpcs"][0]["VpcId"], Subnets=",".join(s["SubnetId"] for s in ec2.describe_subnets()["Subnets"]))
    image = dict(Image="image", ImageRepositoryArn=f"arn:aws:ecr:{REGION}:123456789012:repository/tablekeeper")
    made, _ = deploy("worker", (ROOT / "infra/worker.yaml").read_text(), KeeperStack="third", **network, **image)
    task = boto3.client("ecs").describe_task_definition(taskDefinition=made["Task"])["taskDefinition"]
    command = task["containerDefinitions"][0]["command"]
    equal(command[:7], ["worker", "--model", "quality", "--table", "third", "--state-table", "third-keeper"], "the worker's command")
    rights = str(boto3.client("iam").get_role_policy(RoleName=made["WorkerRole"], PolicyName="worker"))
    check("table/third-keeper" in rights and "table/third/stream/*" in rights, f"the worker's rights: {rights}")


def tables_alone(model):
    text = (RENDERED / f"{model}.json").read_text()
    rendered = json.loads(text)
    with mock_aws():
        made, _ = deploy("tables", text)
        equal(set(made), {"Table", "StateTable"}, f"{model}: the tables alone")
        tables_match(model, made, rendered)


# ---- the rest -----------------------------------------------------------------------------------------------------------


def checkov():
    reports = listed(json.loads((RENDERED / "checkov.json").read_text()))
    kinds = {report["check_type"]: report["summary"] for report in reports}
    check({"cloudformation", "dockerfile"} <= set(kinds), f"checkov looked at {sorted(kinds)}")
    reasons = sum(
        len(resource["Metadata"]["checkov"]["skip"])
        for path in (ROOT / "infra").glob("*.yaml")
        for resource in read(path)["Resources"].values()
        if "checkov" in resource.get("Metadata", {})
    )
    for kind, summary in kinds.items():
        equal((summary["failed"], summary["parsing_errors"]), (0, 0), f"checkov, {kind}: failed, not read")
        check(summary["passed"] > 0, f"checkov, {kind}: nothing was checked")
        # Each exception is still one: a check that passes needs no reason.
        equal(summary["skipped"], reasons if kind == "cloudformation" else 0, f"checkov, {kind}: exceptions")
    print("checkov:", "; ".join(f"{kind} {s['passed']} passed, {s['failed']} failed, {s['skipped']} with a reason" for kind, s in kinds.items()))


def costs():
    """The tables in infra/README.md are what infra/cost.py prints."""
    readme = (ROOT / "infra/README.md").read_text()
    for arguments in ([], ["--prices"]):
        printed = subprocess.run([sys.executable, ROOT / "infra/cost.py", *arguments], check=True, capture_output=True, text=True).stdout
        for table in printed.strip().split("\n\n"):
            check(table in readme, f"infra/README.md has not this table of `infra/cost.py {' '.join(arguments)}`:\n{table}")


def health():
    """The container's health check tells 200 from all else."""

    class Answers(http.server.BaseHTTPRequestHandler):
        status = 200

        def do_GET(self):
            self.send_response(self.status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    port = str(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    ask = lambda: subprocess.run([ROOT / "infra/healthy", port], capture_output=True, timeout=30).returncode == 0
    check(ask(), "healthy is taken for not")
    Answers.status = 503
    check(not ask(), "503 is taken for healthy")
    server.shutdown()
    server.server_close()
    check(not ask(), "silence is taken for healthy")


def main():
    # That moto passes over resources is known, see above.
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    stack, worker = read(ROOT / "infra/template.yaml"), read(ROOT / "infra/worker.yaml")
    for name, template in (("template.yaml", stack), ("worker.yaml", worker)):
        least_privilege(name, template)
        alarms_have_metrics(name, template)
    log_says("template.yaml", stack)
    log_says("worker.yaml", worker)
    encrypted(stack)
    tables_are_safe(stack)
    buckets_are_private(stack)
    settings_are_known(stack)
    checkov()
    costs()
    health()
    for model in MODELS:
        filters(model, read(RENDERED / f"{model}.yaml"))
        whole_stack(model)
        tables_alone(model)
    print(f"infra.py: {passed} passed, 0 failed")


main()
