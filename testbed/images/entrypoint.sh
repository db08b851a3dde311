#!/bin/bash
# Runs an executor where Spark on Kubernetes asks for one, as the entrypoint of Spark's own image does; and else the
# command that it is given. What is to be run becomes the first process of the container, and gets its signals.
set -eu
if [ "${1:-}" != executor ]; then
    exec "$@"
fi
options=()
for name in $(compgen -e | grep '^SPARK_JAVA_OPT_' | sort --field-separator=_ --key=4 --numeric-sort); do
    options+=("${!name}")
done
cd /tmp # where an executor puts the jars of its application
exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$SPARK_HOME/conf:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
