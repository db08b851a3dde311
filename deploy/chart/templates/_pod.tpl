{{/* Parts of the replicas' Pod, each where one can look at it alone. */}}

{{/* A change of these restarts the replicas in turn. Digests are of what a server reads only at its start and a Pod's own
     text does not show: not of tokens and certificates, which it reads again by itself. */}}
{{- define "milepost.podAnnotations" -}}
{{- $namespace := .Release.Namespace -}}
{{- $found := dict -}}
{{- $secrets := list -}}
{{- if eq .Values.pointers.kind "zookeeper" -}}
{{- $secrets = append $secrets .Values.pointers.zookeeper.existingSecret -}}
{{- $secrets = append $secrets .Values.pointers.zookeeper.tls.existingSecret -}}
{{- end -}}
{{- if eq .Values.blobs.kind "s3" -}}
{{- $secrets = append $secrets .Values.blobs.s3.existingSecret -}}
{{- end -}}
{{- $digests := list -}}
{{- range $secrets | compact | uniq -}}
{{- $digests = append $digests (include "milepost.digestOf" (dict "kind" "Secret" "namespace" $namespace "name" .)) -}}
{{- end -}}
{{- $_ := set $found "checksum/secrets" ($digests | toJson | sha256sum) -}}
{{- if eq .Values.blobs.kind "hdfs" -}}
{{- with .Values.blobs.hdfs -}}
{{- $digest := "" -}}
{{- if .existingConfigMap -}}
{{- $digest = include "milepost.digestOf" (dict "kind" "ConfigMap" "namespace" $namespace "name" .existingConfigMap) -}}
{{- end -}}
{{- $_ := set $found "checksum/hadoop" (list .configuration $digest | toJson | sha256sum) -}}
{{- end -}}
{{- end -}}
{{- with .Values.rollout -}}{{- $_ := set $found "milepost/rollout" . -}}{{- end -}}
{{- merge $found .Values.podAnnotations .Values.commonAnnotations | toYaml -}}
{{- end -}}

{{- define "milepost.environment" -}}
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- if include "milepost.labelsLeader" . }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- end }}
- name: MILEPOST_LISTEN
  value: {{ ternary "[::]:7070" "0.0.0.0:7070" (eq .Values.ipFamily "IPv6") | quote }}
- name: MILEPOST_ADVERTISE
{{- if include "milepost.tlsSecret" . }}
  # In braces, the server writes the address with dashes, as the names of Pods have it.
  value: https://{$(POD_IP)}.{{ include "milepost.replicaDomain" . }}:7070
- name: MILEPOST_TLS_CERT
  value: /etc/milepost/tls/tls.crt
- name: MILEPOST_TLS_KEY
  value: /etc/milepost/tls/tls.key
{{- with .Values.tls.caKey }}
- name: MILEPOST_TLS_CA
  value: /etc/milepost/tls/{{ . }}
{{- end }}
{{- if include "milepost.demandsCertificates" . }}
- name: MILEPOST_TLS_CLIENT_CA
  value: /etc/milepost/client-ca/{{ .Values.tls.clientCa.key }}
{{- end }}
{{- else if eq .Values.ipFamily "IPv6" }}
  value: http://[$(POD_IP)]:7070
{{- else }}
  value: http://$(POD_IP):7070
{{- end }}
- name: MILEPOST_POINTERS
  value: {{ include "milepost.pointersUrl" . | quote }}
- name: MILEPOST_BLOBS
  value: {{ include "milepost.blobsUrl" . | quote }}
{{- with include "milepost.cellName" . }}
- name: MILEPOST_CELL
  value: {{ . }}
- name: MILEPOST_CELLS
  value: {{ include "milepost.cellNames" $ }}
- name: MILEPOST_CELL_ADDRESSES
  value: "@/etc/milepost/cells/cells"
{{- end }}
{{- if .Values.auth.insecure }}
- name: MILEPOST_INSECURE
  value: "true"
{{- end }}
{{- if .Values.auth.existingSecret }}
- name: MILEPOST_TOKEN_FILE
  value: /etc/milepost/auth/tokens
{{- with .Values.auth.serviceAccounts.audience }}
- name: MILEPOST_SERVICE_ACCOUNTS
  value: {{ . | quote }}
{{- end }}
{{- else }}
- name: MILEPOST_HOSTS
  value: {{ include "milepost.hosts" . | quote }}
{{- end }}
{{- with .Values.server }}
- name: MILEPOST_LINGER
  value: {{ .linger | quote }}
- name: MILEPOST_COLLECT_AFTER
  value: {{ .collectAfter | quote }}
{{- if .maxStateBytes }}
- name: MILEPOST_MAX_STATE_BYTES
  value: {{ int64 .maxStateBytes | quote }}
{{- end }}
{{- if kindIs "invalid" .inlineBelow }}
{{- if eq $.Values.pointers.kind "kubernetes" }}
- name: MILEPOST_INLINE_BELOW
  value: "64"
{{- end }}
{{- else }}
- name: MILEPOST_INLINE_BELOW
  value: {{ int64 .inlineBelow | quote }}
{{- end }}
{{- if .epochsAbove }}
- name: MILEPOST_EPOCHS_ABOVE
  value: {{ int64 .epochsAbove | quote }}
{{- end }}
- name: MILEPOST_LOG_LEVEL
  value: {{ .logLevel }}
{{- end }}
{{- if eq .Values.blobs.kind "s3" }}
{{- with .Values.blobs.s3.existingSecret }}
{{- $secret := . }}
{{- range $key := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" "AWS_SESSION_TOKEN" }}
- name: {{ $key }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret }}
      key: {{ $key }}
      {{- if eq $key "AWS_SESSION_TOKEN" }}
      optional: true
      {{- end }}
{{- end }}
{{- end }}
{{- else }}
{{- if include "milepost.hadoopConfigMap" . }}
- name: HADOOP_CONF_DIR
  value: /etc/milepost/hadoop
{{- end }}
{{- with .Values.blobs.hdfs.user }}
- name: HADOOP_USER_NAME
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Started: it reached all that it stands on, once. Ready: it leads or knows who does. What they stand on is not asked
     again, for all replicas share it: to take every one of them out of the Services would help nobody, and while states
     are away, handles, locks and epochs go on. No leader is known while a lease runs out: that makes nobody unready. */}}
{{- define "milepost.probes" -}}
{{- $readiness := deepCopy .Values.probes.readiness -}}
{{- if kindIs "invalid" $readiness.failureThreshold -}}
{{- $lease := include "milepost.leaseSeconds" . | float64 -}}
{{- $enough := add 2 (divf (addf $lease 5.0) ($readiness.periodSeconds | float64) | ceil) -}}
{{- $_ := set $readiness "failureThreshold" (max 6 (int $enough)) -}}
{{- end -}}
startupProbe:
  {{- include "milepost.probe" (dict "top" . "path" "/readyz" "given" .Values.probes.startup) | nindent 2 }}
readinessProbe:
  {{- include "milepost.probe" (dict "top" . "path" "/readyz?exclude=pointers&exclude=blobs" "given" $readiness) | nindent 2 }}
livenessProbe:
  {{- include "milepost.probe" (dict "top" . "path" "/livez" "given" .Values.probes.liveness) | nindent 2 }}
{{- end -}}

{{/* The kubelet takes any certificate, and shows none. */}}
{{- define "milepost.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  {{- if include "milepost.tlsSecret" .top }}
  scheme: HTTPS
  {{- end }}
{{ toYaml .given }}
{{- end -}}

{{- define "milepost.mounts" -}}
{{- if .Values.cells }}
- name: cells
  mountPath: /etc/milepost/cells
  readOnly: true
{{- end }}
{{- if include "milepost.tlsSecret" . }}
- name: tls
  mountPath: /etc/milepost/tls
  readOnly: true
{{- if include "milepost.demandsCertificates" . }}
- name: client-ca
  mountPath: /etc/milepost/client-ca
  readOnly: true
{{- end }}
{{- end }}
{{- if .Values.auth.existingSecret }}
- name: auth
  mountPath: /etc/milepost/auth
  readOnly: true
{{- end }}
{{- if eq .Values.pointers.kind "zookeeper" }}
{{- if .Values.pointers.zookeeper.existingSecret }}
- name: zookeeper
  mountPath: /etc/milepost/zookeeper
  readOnly: true
{{- end }}
{{- with .Values.pointers.zookeeper.tls }}
{{- if and .enabled .existingSecret }}
- name: zookeeper-tls
  mountPath: /etc/milepost/zookeeper-tls
  readOnly: true
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq .Values.blobs.kind "hdfs") (include "milepost.hadoopConfigMap" .) }}
- name: hadoop
  mountPath: /etc/milepost/hadoop
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "milepost.volumes" -}}
{{- if .Values.cells }}
- name: cells
  configMap:
    name: {{ include "milepost.releaseName" . }}-cells
{{- end }}
{{- with include "milepost.tlsSecret" . }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- with $.Values.tls.clientCa }}
{{- if .existingSecret }}
- name: client-ca
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 0440
    items:
      - key: {{ .key }}
        path: {{ .key }}
{{- else if .existingConfigMap }}
- name: client-ca
  configMap:
    name: {{ .existingConfigMap }}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.auth.existingSecret }}
- name: auth
  secret:
    secretName: {{ .Values.auth.existingSecret }}
    defaultMode: 0440
    items:
      - key: {{ .Values.auth.key }}
        path: tokens
{{- end }}
{{- if eq .Values.pointers.kind "zookeeper" }}
{{- with .Values.pointers.zookeeper.existingSecret }}
- name: zookeeper
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with .Values.pointers.zookeeper.tls }}
{{- if and .enabled .existingSecret }}
- name: zookeeper-tls
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 0440
{{- end }}
{{- end }}
{{- end }}
{{- if eq .Values.blobs.kind "hdfs" }}
{{- with include "milepost.hadoopConfigMap" . }}
- name: hadoop
  configMap:
    name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
