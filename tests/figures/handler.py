"""Counts work orders by project and by technician from a table's stream, as AWS's documentation shows it: one update a record and count.

What `tests/lambda-figures.sh` measures the stream function beside. It does less: what is delivered twice counts twice, and nobody could say so.
"""

import os

import boto3

client = boto3.client("dynamodb")
TABLE = os.environ["TABLE"]
STATUSES = ("Pending", "InProgress", "Complete", "Cancelled")


def groups(image):
    if image.get("Type", {}).get("S") != "WorkOrder":
        return
    status = image.get("Status", {}).get("S")
    bucket = status if status in STATUSES else "Other"
    technician = image["SK"]["S"].removeprefix("USER#")
    yield f"PROJECT#{image['ProjectID']['S']}", bucket
    yield f"TECHNICIAN#{technician}", bucket


def add(partition, bucket, n):
    client.update_item(
        TableName=TABLE,
        Key={"PK": {"S": partition}, "SK": {"S": "STATS#WO_STATUS_PYTHON"}},
        UpdateExpression="ADD #total :n, #bucket :n SET #keeper = :keeper",
        ExpressionAttributeNames={"#total": "Total", "#bucket": f"Count_{bucket}", "#keeper": "_keeper"},
        ExpressionAttributeValues={":n": {"N": str(n)}, ":keeper": {"S": "aggregate/python"}},
    )


def handler(event, context):
    for record in event["Records"]:
        images = record["dynamodb"]
        old, new = images.get("OldImage", {}), images.get("NewImage", {})
        if "_keeper" in old or "_keeper" in new:
            continue
        try:
            for partition, bucket in groups(old):
                add(partition, bucket, -1)
            for partition, bucket in groups(new):
                add(partition, bucket, 1)
        except Exception:
            return {"batchItemFailures": [{"itemIdentifier": images["SequenceNumber"]}]}
    return {"batchItemFailures": []}
