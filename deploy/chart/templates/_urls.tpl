{{/* The values of --pointers and --blobs. What a user wrote is escaped, so that it cannot add options, nor name
     variables, which Kubernetes would put in. */}}

{{- define "milepost.pointersUrl" -}}
{{- if eq .Values.pointers.kind "kubernetes" -}}
{{- include "milepost.kubernetesUrl" . -}}
{{- else -}}
{{- include "milepost.zookeeperUrl" . -}}
{{- end -}}
{{- end -}}

{{- define "milepost.kubernetesUrl" -}}
{{- $options := list -}}
{{- if include "milepost.labelsLeader" . -}}
{{- $options = append $options "pod=$(POD_NAME)" -}}
{{- end -}}
{{- with .Values.pointers.kubernetes -}}
{{- $options = append $options (printf "lease_duration=%v" .leaseDuration) -}}
{{- $options = append $options (printf "renew_deadline=%v" .renewDeadline) -}}
{{- $options = append $options (printf "retry_period=%v" .retryPeriod) -}}
{{- $options = append $options (printf "bytes_per_second=%d" (int64 .bytesPerSecond)) -}}
{{- $options = append $options (printf "most_bytes=%d" (int64 .mostBytes)) -}}
{{- end -}}
{{- printf "kubernetes://%s/%s?%s" .Release.Namespace (include "milepost.fullname" .) (join "&" $options) -}}
{{- end -}}

{{- define "milepost.zookeeperUrl" -}}
{{- with .Values.pointers.zookeeper -}}
{{- $options := list (printf "session_timeout=%v" .sessionTimeout) -}}
{{- if .existingSecret -}}
{{- $options = append $options "credentials_file=/etc/milepost/zookeeper/credentials" -}}
{{- end -}}
{{- if .tls.enabled -}}
{{- $options = append $options (printf "verify=%s" .tls.verify) -}}
{{- if .tls.existingSecret -}}
{{- $options = append $options "ca_file=/etc/milepost/zookeeper-tls/ca.crt" -}}
{{- end -}}
{{- if .tls.clientCertificate -}}
{{- $options = append $options "cert_file=/etc/milepost/zookeeper-tls/tls.crt" -}}
{{- $options = append $options "key_file=/etc/milepost/zookeeper-tls/tls.key" -}}
{{- end -}}
{{- end -}}
{{- $scheme := ternary "zookeeper+tls" "zookeeper" .tls.enabled -}}
{{- printf "%s://%s%s?%s" $scheme (join "," .hosts) (printf "%s%s" .path (include "milepost.cellSuffix" $)) (join "&" $options) -}}
{{- end -}}
{{- end -}}

{{- define "milepost.blobsUrl" -}}
{{- if eq .Values.blobs.kind "s3" -}}
{{- include "milepost.s3Url" . -}}
{{- else -}}
{{- with .Values.blobs.hdfs -}}
{{- printf "hdfs://%s%s%s" .authority .path (include "milepost.cellSuffix" $) -}}
{{- if .replication -}}?replication={{ int .replication }}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "milepost.s3Url" -}}
{{- with .Values.blobs.s3 -}}
{{- $options := list -}}
{{- if .endpointUrl -}}
{{- $options = append $options (printf "endpoint_url=%s" (urlquery .endpointUrl)) -}}
{{- end -}}
{{- if .region -}}
{{- $options = append $options (printf "region=%s" .region) -}}
{{- end -}}
{{- if .addressingStyle -}}
{{- $options = append $options (printf "addressing_style=%s" .addressingStyle) -}}
{{- end -}}
{{- $suffix := include "milepost.cellSuffix" $ -}}
{{- $prefix := ternary (printf "%s%s" .prefix $suffix) (trimPrefix "-" $suffix) (ne .prefix "") -}}
{{- $place := ternary (printf "s3://%s/%s" .bucket $prefix) (printf "s3://%s" .bucket) (ne $prefix "") -}}
{{- ternary $place (printf "%s?%s" $place (join "&" $options)) (empty $options) -}}
{{- end -}}
{{- end -}}
