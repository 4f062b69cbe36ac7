# Kafka Connect for the profile 'events': Debezium's image, which has its connectors, with Confluent's S3 sink beside them.
# Not built yet, see docker-compose.yaml. The sink is under the Confluent Community License.
FROM confluentinc/cp-kafka-connect:7.6.0 AS sink
RUN confluent-hub install --no-prompt confluentinc/kafka-connect-s3:10.5.23

FROM quay.io/debezium/connect:3.6.1.Final
COPY --from=sink --chown=kafka:kafka /usr/share/confluent-hub-components/confluentinc-kafka-connect-s3 /kafka/connect/confluentinc-kafka-connect-s3
