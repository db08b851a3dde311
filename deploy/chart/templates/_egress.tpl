{{/* Whether replicas are let out to what the values name alone: "true" or nothing. With "auto", where the values name all:
     S3 is AWS's, whose port is known, and nothing of the user's own is in the Pod that could want to go elsewhere. */}}
{{- define "milepost.restrictsEgress" -}}
{{- $chosen := .Values.networkPolicy.egress.enabled -}}
{{- if kindIs "bool" $chosen -}}
{{- if $chosen -}}true{{- end -}}
{{- else if and (eq .Values.pointers.kind "kubernetes") (eq .Values.blobs.kind "s3") (not .Values.blobs.s3.endpointUrl) -}}
{{- $own := concat .Values.extraEnv .Values.extraEnvFrom .Values.extraArgs .Values.sidecars .Values.initContainers -}}
{{- if not $own -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Ports to go out by, as they follow from where pointers and states lie. */}}
{{- define "milepost.egress" -}}
{{- $ports := list -}}
{{- if include "milepost.asksKubernetes" . -}}
{{- range .Values.networkPolicy.egress.kubernetesPorts -}}
{{- $ports = append $ports (int .) -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.pointers.kind "zookeeper" -}}
{{- $usual := ternary "2281" "2181" .Values.pointers.zookeeper.tls.enabled -}}
{{- range .Values.pointers.zookeeper.hosts -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default $usual | int) -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.blobs.kind "s3" -}}
{{- $endpoint := .Values.blobs.s3.endpointUrl -}}
{{- $usual := ternary "80" "443" (hasPrefix "http:" $endpoint) -}}
{{- $ports = append $ports ((urlParse $endpoint).host | default "" | regexFind ":[0-9]+$" | trimPrefix ":" | default $usual | int) -}}
{{- else -}}
{{- range .Values.networkPolicy.egress.hdfsPorts -}}
{{- $ports = append $ports (int .) -}}
{{- end -}}
{{- with regexFind ":[0-9]+$" .Values.blobs.hdfs.authority -}}
{{- $ports = append $ports (trimPrefix ":" . | int) -}}
{{- end -}}
{{- end -}}
- ports:
    {{- range $ports | uniq }}
    - port: {{ . }}
    {{- end }}
{{- if and (eq .Values.blobs.kind "s3") (not .Values.blobs.s3.existingSecret) }}
# Roles: the token service, and the addresses on the node that AWS gives credentials out at.
- ports:
    - port: 443
- to:
    - ipBlock:
        cidr: 169.254.169.254/32
    - ipBlock:
        cidr: 169.254.170.23/32
    {{- if eq .Values.ipFamily "IPv6" }}
    - ipBlock:
        cidr: fd00:ec2::254/128
    - ipBlock:
        cidr: fd00:ec2::23/128
    {{- end }}
  ports:
    - port: 80
{{- end }}
{{- end -}}
